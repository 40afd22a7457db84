"""A client that openapi-generator makes for Python: what tests/clients/run asks of every client."""

import os
import pathlib

import docket_client as docket

API = os.environ["DOCKET_API"]


def signed_in(key: str, user: str) -> docket.ApiClient:
    # Without `retries`, the client waits as long as Retry-After says, and tries again.
    settings = docket.Configuration(host=API, api_key={"ApiKey": key}, retries=0)
    client = docket.ApiClient(settings)
    request = docket.SessionTokenRequest(user_id=user, password=os.environ["DOCKET_PASSWORD"])
    settings.access_token = docket.AuthApi(client).auth_create_token(request).token
    return client


client = signed_in(os.environ["DOCKET_KEY"], os.environ["DOCKET_USER"])
orders = docket.OrdersApi(client)
court = None
files = sorted(pathlib.Path(os.environ["DOCKET_ORDERS"]).iterdir())
assert len(files) == 7, files
for file in files:
    saved = orders.orders_save(docket.SaveOrderRequest.from_json(file.read_text()))
    exported = orders.orders_export(docket.ExportRequest(web_order_id=saved.web_order_id))
    if exported.order_type == docket.OrderType.COURT:
        court = exported.work_order_id
assert court
note = docket.NoteRequest(work_order=court, work_order_type=docket.WorkOrderFamily.COURT, report="Filed.")
assert docket.NotesApi(client).notes_add(note).line_item == 1

FROM, TO = "2020-01-01", "2099-01-01T00:00:00-08:00"
found = orders.orders_search(var_from=FROM, to=TO)
assert len(found.items) >= 7, found
answer = orders.orders_get(found.items[0].web_order_id)
order = answer.order.actual_instance
assert order and order.order_type == answer.order_type, answer
docket.NotesApi(client).notes_search(var_from=FROM, to=TO)
docket.ProcessStatusApi(client).process_status_search(var_from=FROM, to=TO)
docket.InvoicesApi(client).invoices_search(var_from=FROM, to=TO)

limited = docket.OrdersApi(signed_in(os.environ["DOCKET_LIMITED_KEY"], os.environ["DOCKET_LIMITED_USER"]))
for _ in range(100):
    try:
        limited.orders_search(var_from=FROM, to=TO)
    except docket.ApiException as error:
        assert error.status == 429 and error.headers, error
        assert int(error.headers["Retry-After"]) >= 1, error.headers
        assert isinstance(error.data, docket.Problem) and error.data.limit == "requestsPerSecond", error.data
        break
else:
    raise AssertionError("no 429")
