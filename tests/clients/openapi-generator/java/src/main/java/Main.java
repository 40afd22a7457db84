// A client that openapi-generator makes for Java: what tests/clients/run asks of every client.

import docket.ApiClient;
import docket.ApiException;
import docket.api.*;
import docket.model.*;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

public final class Main {
    static String given(String name) {
        return Objects.requireNonNull(System.getenv(name), name);
    }

    static void check(boolean holds, Object what) {
        if (!holds) throw new IllegalStateException(String.valueOf(what));
    }

    static ApiClient signedIn(String key, String user) throws ApiException {
        var client = new ApiClient();
        client.updateBaseUri(given("DOCKET_API"));
        client.setRequestInterceptor(request -> request.header("X-Api-Key", given(key)));
        var request = new SessionTokenRequest().userId(given(user)).password(given("DOCKET_PASSWORD"));
        var bearer = "Bearer " + new AuthApi(client).authCreateToken(request).getToken();
        return client.setRequestInterceptor(
            next -> next.header("X-Api-Key", given(key)).header("Authorization", bearer));
    }

    public static void main(String[] arguments) throws ApiException, IOException {
        var client = signedIn("DOCKET_KEY", "DOCKET_USER");
        var orders = new OrdersApi(client);
        String court = null;
        try (var files = Files.newDirectoryStream(Path.of(given("DOCKET_ORDERS")))) {
            var count = 0;
            for (var file : files) {
                var order = client.getObjectMapper().readValue(file.toFile(), SaveOrderRequest.class);
                var saved = orders.ordersSave(order, null, null);
                var export = new ExportRequest().webOrderId(saved.getWebOrderId());
                var exported = orders.ordersExport(export, null, null);
                if (exported.getOrderType() == OrderType.COURT) court = exported.getWorkOrderId();
                count++;
            }
            check(count == 7, count);
        }
        var note = new NoteRequest().workOrder(court).workOrderType(WorkOrderFamily.COURT).report("Filed.");
        var added = new NotesApi(client).notesAdd(note, null);
        check(added.getLineItem() == 1, added);

        String from = "2020-01-01", to = "2099-01-01T00:00:00-08:00";
        var found = orders.ordersSearch(null, null, from, to, null, null, null, null);
        check(found.getItems().size() >= 7, found);
        var order = orders.ordersGet(found.getItems().get(0).getWebOrderId());
        var kind = order.getOrder().getActualInstance().getClass().getSimpleName();
        check(kind.equals("Stored" + order.getOrderType() + "Order"), order);
        new NotesApi(client).notesSearch(null, null, from, to, null, null);
        new ProcessStatusApi(client).processStatusSearch(null, null, null, null, from, to, null, null);
        new InvoicesApi(client).invoicesSearch(null, null, null, from, to, null, null);

        var limited = new OrdersApi(signedIn("DOCKET_LIMITED_KEY", "DOCKET_LIMITED_USER"));
        for (var tries = 0; tries < 100; tries++) {
            try {
                limited.ordersSearch(null, null, from, to, null, null, null, null);
            } catch (ApiException error) {
                check(error.getCode() == 429, error);
                var problem = client.getObjectMapper().readValue(error.getResponseBody(), Problem.class);
                check("requestsPerSecond".equals(problem.getLimit()), problem);
                check(error.getResponseHeaders().firstValueAsLong("Retry-After").orElse(0) >= 1, error);
                return;
            }
        }
        throw new IllegalStateException("no 429");
    }
}
