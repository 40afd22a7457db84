// A client that ogen makes: what tests/clients/run asks of every client.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"

	"docket.dev/tests/clients/ogen/docket"
)

// credentials are what a call carries: the tenant's key, and once the caller is signed in, the token.
type credentials struct{ key, token string }

func (c *credentials) ApiKey(context.Context, docket.OperationName) (docket.ApiKey, error) {
	return docket.ApiKey{APIKey: c.key}, nil
}

func (c *credentials) Bearer(context.Context, docket.OperationName) (docket.Bearer, error) {
	return docket.Bearer{Token: c.token}, nil
}

func check(holds bool, what any) {
	if !holds {
		log.Fatalf("%+v", what)
	}
}

// must returns an answer, which has to be of the type that stands for this answer.
func must[Answer any](answer any, err error) Answer {
	if err != nil {
		log.Fatal(err)
	}
	one, ok := answer.(Answer)
	check(ok, answer)
	return one
}

func signedIn(ctx context.Context, key, user string) *docket.Client {
	who := &credentials{key: os.Getenv(key)}
	client := must[*docket.Client](docket.NewClient(os.Getenv("DOCKET_API"), who))
	request := &docket.SessionTokenRequest{UserId: os.Getenv(user), Password: os.Getenv("DOCKET_PASSWORD")}
	who.token = must[*docket.TokenResponseHeaders](client.AuthCreateToken(ctx, request)).Response.Token
	return client
}

func main() {
	ctx := context.Background()
	client := signedIn(ctx, "DOCKET_KEY", "DOCKET_USER")
	files := must[[]string](filepath.Glob(filepath.Join(os.Getenv("DOCKET_ORDERS"), "*.json")))
	check(len(files) == 7, files)
	var court string
	for _, file := range files {
		var order docket.SaveOrderRequest
		err := order.UnmarshalJSON(must[[]byte](os.ReadFile(file)))
		check(err == nil, err)
		saved := must[*docket.SaveAnswerHeaders](client.OrdersSave(ctx, order, docket.OrdersSaveParams{}))
		export := &docket.ExportRequest{WebOrderId: saved.Response.WebOrderId}
		exported := must[*docket.ExportAnswerHeaders](client.OrdersExport(ctx, export, docket.OrdersExportParams{}))
		if exported.Response.OrderType == docket.OrderTypeCourt {
			court = exported.Response.WorkOrderId
		}
	}
	note := &docket.NoteRequest{WorkOrder: court, WorkOrderType: docket.WorkOrderFamilyCourt, Report: "Filed."}
	added := must[*docket.NoteAnswerHeaders](client.NotesAdd(ctx, note, docket.NotesAddParams{}))
	check(added.Response.LineItem == 1, added)

	from, to := docket.NewOptString("2020-01-01"), docket.NewOptString("2099-01-01T00:00:00-08:00")
	found := must[*docket.OrderPageHeaders](client.OrdersSearch(ctx, docket.OrdersSearchParams{From: from, To: to}))
	check(len(found.Response.Items) >= 7, found)
	get := docket.OrdersGetParams{WebOrderId: found.Response.Items[0].WebOrderId}
	order := must[*docket.OrderAnswerHeaders](client.OrdersGet(ctx, get)).Response
	check(string(order.Order.Type) == string(order.OrderType), order)
	must[*docket.NotePageHeaders](client.NotesSearch(ctx, docket.NotesSearchParams{From: from, To: to}))
	must[*docket.ProcessPageHeaders](client.ProcessStatusSearch(ctx, docket.ProcessStatusSearchParams{From: from, To: to}))
	must[*docket.InvoicePageHeaders](client.InvoicesSearch(ctx, docket.InvoicesSearchParams{From: from, To: to}))

	limited := signedIn(ctx, "DOCKET_LIMITED_KEY", "DOCKET_LIMITED_USER")
	for range 100 {
		answer := must[docket.OrdersSearchRes](limited.OrdersSearch(ctx, docket.OrdersSearchParams{From: from, To: to}))
		if _, isPage := answer.(*docket.OrderPageHeaders); !isPage {
			refused := must[*docket.AtLimitHeaders](answer, nil)
			check(refused.Response.Limit.Value == "requestsPerSecond" && refused.RetryAfter.Value >= 1, refused)
			return
		}
	}
	log.Fatal("no 429")
}
