// Judges deliveries with the Standard Webhooks library for Go; see verify.py.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type delivery struct {
	Secret  string
	Body    string
	Headers map[string]string
}

func main() {
	var deliveries []delivery
	if err := json.NewDecoder(os.Stdin).Decode(&deliveries); err != nil {
		panic(err)
	}
	for _, delivery := range deliveries {
		webhook, err := standardwebhooks.NewWebhook(delivery.Secret)
		if err != nil {
			panic(err)
		}
		headers := http.Header{}
		for name, value := range delivery.Headers {
			headers.Set(name, value)
		}
		fmt.Println(webhook.Verify([]byte(delivery.Body), headers) == nil)
	}
}
