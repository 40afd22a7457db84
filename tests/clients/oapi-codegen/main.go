// A client that oapi-codegen makes: what tests/clients/run asks of every client.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"docket.dev/tests/clients/oapi-codegen/docket"
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

func signedIn(ctx context.Context, key, user string) *docket.ClientWithResponses {
	var token string
	authorize := docket.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("X-Api-Key", os.Getenv(key))
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	})
	client := must(docket.NewClientWithResponses(os.Getenv("DOCKET_API"), authorize))
	request := docket.SessionTokenRequest{UserId: os.Getenv(user), Password: os.Getenv("DOCKET_PASSWORD")}
	answer := must(client.AuthCreateTokenWithResponse(ctx, request))
	check(answer.JSON200 != nil, string(answer.Body))
	token = answer.JSON200.Token
	return client
}

func main() {
	ctx := context.Background()
	client := signedIn(ctx, "DOCKET_KEY", "DOCKET_USER")
	files := must(filepath.Glob(filepath.Join(os.Getenv("DOCKET_ORDERS"), "*.json")))
	check(len(files) == 7, files)
	var court string
	for _, file := range files {
		var order docket.SaveOrderRequest
		err := json.Unmarshal(must(os.ReadFile(file)), &order)
		check(err == nil, err)
		must(order.ValueByDiscriminator())
		saved := must(client.OrdersSaveWithResponse(ctx, nil, order))
		check(saved.JSON200 != nil, string(saved.Body))
		export := docket.ExportRequest{WebOrderId: saved.JSON200.WebOrderId}
		exported := must(client.OrdersExportWithResponse(ctx, nil, export))
		check(exported.JSON200 != nil, string(exported.Body))
		if exported.JSON200.OrderType == docket.OrderTypeCourt {
			court = exported.JSON200.WorkOrderId
		}
	}
	note := docket.NoteRequest{WorkOrder: court, WorkOrderType: docket.WorkOrderFamilyCourt, Report: "Filed."}
	added := must(client.NotesAddWithResponse(ctx, nil, note))
	check(added.JSON200 != nil && added.JSON200.LineItem == 1, string(added.Body))

	from, to := "2020-01-01", "2099-01-01T00:00:00-08:00"
	search := &docket.OrdersSearchParams{From: &from, To: &to}
	found := must(client.OrdersSearchWithResponse(ctx, search))
	check(found.JSON200 != nil && len(found.JSON200.Items) >= 7, string(found.Body))
	get := &docket.OrdersGetParams{WebOrderId: found.JSON200.Items[0].WebOrderId}
	order := must(client.OrdersGetWithResponse(ctx, get))
	check(order.JSON200 != nil, string(order.Body))
	check(must(order.JSON200.Order.Discriminator()) == string(order.JSON200.OrderType), string(order.Body))
	must(order.JSON200.Order.ValueByDiscriminator())
	notes := must(client.NotesSearchWithResponse(ctx, &docket.NotesSearchParams{From: &from, To: &to}))
	processes := must(client.ProcessStatusSearchWithResponse(ctx, &docket.ProcessStatusSearchParams{From: &from, To: &to}))
	invoices := must(client.InvoicesSearchWithResponse(ctx, &docket.InvoicesSearchParams{From: &from, To: &to}))
	check(notes.JSON200 != nil && processes.JSON200 != nil && invoices.JSON200 != nil, notes, processes, invoices)

	limited := signedIn(ctx, "DOCKET_LIMITED_KEY", "DOCKET_LIMITED_USER")
	for range 100 {
		if answer := must(limited.OrdersSearchWithResponse(ctx, search)); answer.JSON200 == nil {
			refused, headers := answer.ApplicationproblemJSON429, answer.Headers429
			check(refused != nil && *refused.Limit == "requestsPerSecond" && *headers.RetryAfter >= 1, string(answer.Body))
			return
		}
	}
	log.Fatal("no 429")
}
