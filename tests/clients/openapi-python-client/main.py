"""A client that openapi-python-client makes: what tests/clients/run asks of every client."""

import json
import os
import pathlib

from docket_client import AuthenticatedClient, models
from docket_client.api.auth import auth_create_token
from docket_client.api.invoices import invoices_search
from docket_client.api.notes import notes_add, notes_search
from docket_client.api.orders import orders_export, orders_get, orders_save, orders_search
from docket_client.api.process_status import process_status_search

API = os.environ["DOCKET_API"]


def signed_in(key: str, user: str) -> AuthenticatedClient:
    anonymous = AuthenticatedClient(base_url=API, token=key, prefix="", auth_header_name="X-Api-Key")
    body = models.SessionTokenRequest(user_id=user, password=os.environ["DOCKET_PASSWORD"])
    answer = auth_create_token.sync(client=anonymous, body=body)
    assert isinstance(answer, models.TokenResponse), answer
    return AuthenticatedClient(base_url=API, token=answer.token, headers={"X-Api-Key": key})


client = signed_in(os.environ["DOCKET_KEY"], os.environ["DOCKET_USER"])
court = None
files = sorted(pathlib.Path(os.environ["DOCKET_ORDERS"]).iterdir())
assert len(files) == 7, files
for file in files:
    sent = json.loads(file.read_text())
    order = getattr(models, f"{sent['orderType']}Order").from_dict(sent)
    saved = orders_save.sync(client=client, body=order)
    assert isinstance(saved, models.SaveAnswer), saved
    exported = orders_export.sync(client=client, body=models.ExportRequest(web_order_id=saved.web_order_id))
    assert isinstance(exported, models.ExportAnswer), exported
    if exported.order_type == models.OrderType.COURT:
        court = exported.work_order_id
assert court
note = models.NoteRequest(work_order=court, work_order_type=models.WorkOrderFamily.COURT, report="Filed.")
added = notes_add.sync(client=client, body=note)
assert isinstance(added, models.NoteAnswer) and added.line_item == 1, added

FROM, TO = "2020-01-01", "2099-01-01T00:00:00-08:00"
found = orders_search.sync(client=client, from_=FROM, to=TO)
assert isinstance(found, models.OrderPage) and len(found.items) >= 7, found
order = orders_get.sync(client=client, web_order_id=found.items[0].web_order_id)
assert isinstance(order, models.OrderAnswer) and order.order.order_type.value == order.order_type.value, order
assert isinstance(notes_search.sync(client=client, from_=FROM, to=TO), models.NotePage)
assert isinstance(process_status_search.sync(client=client, from_=FROM, to=TO), models.ProcessPage)
assert isinstance(invoices_search.sync(client=client, from_=FROM, to=TO), models.InvoicePage)

limited = signed_in(os.environ["DOCKET_LIMITED_KEY"], os.environ["DOCKET_LIMITED_USER"])
for _ in range(100):
    answer = orders_search.sync_detailed(client=limited, from_=FROM, to=TO)
    if answer.status_code == 429:
        assert isinstance(answer.parsed, models.Problem) and answer.parsed.limit == "requestsPerSecond", answer
        assert int(answer.headers["Retry-After"]) >= 1, answer.headers
        break
else:
    raise AssertionError("no 429")
