// POSTs many bodies to one URL at the same time with Go's default client, as a simple sender does.
// Prints how many had a 2xx response, and the seconds from the first POST to the last response.
//
//	go-client CA-FILE URL COUNT
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	pem, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		panic("no certificate")
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	// Everything but the roots has its default. Docket speaks HTTP/1.1, so this client does too.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	transport.ForceAttemptHTTP2 = false
	client := &http.Client{Transport: transport}

	var succeeded atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for number := 0; number < count; number++ {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			body := fmt.Sprintf(`{"webOrderId":"W%08d"}`, number)
			response, err := client.Post(os.Args[2], "application/json", strings.NewReader(body))
			if err != nil {
				return
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err == nil && response.StatusCode/100 == 2 {
				succeeded.Add(1)
			}
		}(number)
	}
	all.Wait()
	fmt.Printf("%d %.3f\n", succeeded.Load(), time.Since(begun).Seconds())
}
