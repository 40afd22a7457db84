// A client that openapi-generator makes for Go: what tests/clients/run asks of every client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"docket.dev/tests/clients/openapi-generator/docket"
)

func check(holds bool, what ...any) {
	if !holds {
		log.Fatalf("%+v", what)
	}
}

func must[Answer any](answer Answer, err error) Answer {
	check(err == nil, err)
	return answer
}

// answered is must for a call, whose response holds headers as well.
func answered[Answer any](answer Answer, _ *http.Response, err error) Answer {
	return must(answer, err)
}

func newClient() *docket.APIClient {
	settings := docket.NewConfiguration()
	settings.Servers = docket.ServerConfigurations{{URL: os.Getenv("DOCKET_API")}}
	return docket.NewAPIClient(settings)
}

// signedIn returns a context with both credentials.
func signedIn(client *docket.APIClient, key, user string) context.Context {
	keys := map[string]docket.APIKey{"ApiKey": {Key: os.Getenv(key)}}
	ctx := context.WithValue(context.Background(), docket.ContextAPIKeys, keys)
	request := docket.NewSessionTokenRequest(os.Getenv(user), os.Getenv("DOCKET_PASSWORD"))
	token := answered(client.AuthAPI.AuthCreateToken(ctx).SessionTokenRequest(*request).Execute())
	return context.WithValue(ctx, docket.ContextAccessToken, token.Token)
}

func main() {
	client := newClient()
	ctx := signedIn(client, "DOCKET_KEY", "DOCKET_USER")
	files := must(filepath.Glob(filepath.Join(os.Getenv("DOCKET_ORDERS"), "*.json")))
	check(len(files) == 7, files)
	var court string
	for _, file := range files {
		var order docket.SaveOrderRequest
		err := json.Unmarshal(must(os.ReadFile(file)), &order)
		check(err == nil, file, err)
		saved := answered(client.OrdersAPI.OrdersSave(ctx).SaveOrderRequest(order).Execute())
		export := *docket.NewExportRequest(saved.WebOrderId)
		exported := answered(client.OrdersAPI.OrdersExport(ctx).ExportRequest(export).Execute())
		if exported.OrderType == docket.ORDERTYPE_COURT {
			court = exported.WorkOrderId
		}
	}
	note := *docket.NewNoteRequest(court, docket.WORKORDERFAMILY_COURT, "Filed.")
	added := answered(client.NotesAPI.NotesAdd(ctx).NoteRequest(note).Execute())
	check(added.LineItem == 1, added)

	from, to := "2020-01-01", "2099-01-01T00:00:00-08:00"
	found := answered(client.OrdersAPI.OrdersSearch(ctx).From(from).To(to).Execute())
	check(len(found.Items) >= 7, found)
	order := answered(client.OrdersAPI.OrdersGet(ctx).WebOrderId(found.Items[0].WebOrderId).Execute())
	stored, isProcess := order.Order.GetActualInstance().(*docket.StoredProcessOrder)
	check(isProcess && stored.OrderType == string(order.OrderType), order)
	answered(client.NotesAPI.NotesSearch(ctx).From(from).To(to).Execute())
	answered(client.ProcessStatusAPI.ProcessStatusSearch(ctx).From(from).To(to).Execute())
	answered(client.InvoicesAPI.InvoicesSearch(ctx).From(from).To(to).Execute())

	limited := signedIn(client, "DOCKET_LIMITED_KEY", "DOCKET_LIMITED_USER")
	for range 100 {
		_, response, err := client.OrdersAPI.OrdersSearch(limited).From(from).To(to).Execute()
		if err == nil {
			continue
		}
		var refused *docket.GenericOpenAPIError
		check(errors.As(err, &refused) && response.StatusCode == http.StatusTooManyRequests, err)
		problem, isProblem := refused.Model().(docket.Problem)
		check(isProblem && problem.GetLimit() == "requestsPerSecond", refused)
		check(must(strconv.Atoi(response.Header.Get("Retry-After"))) >= 1, response.Header)
		return
	}
	log.Fatal("no 429")
}
