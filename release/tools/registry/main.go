// A registry in memory, for release/test: nothing that it holds outlives it.
//
//	registry [-listen 127.0.0.1:0] [-referrers=false] [-rewrite]
//
// The first line of its output is the address on which it listens. Without -referrers it has no referrers API, as older
// registries. With -rewrite it does what a registry must not: it stores manifests with other bytes than it was sent.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	referrers := flag.Bool("referrers", true, "offer the referrers API")
	rewrite := flag.Bool("rewrite", false, "store manifests with another last byte")
	flag.Parse()
	handler := registry.New(registry.WithReferrersSupport(*referrers), registry.Logger(log.New(io.Discard, "", 0)))
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if *rewrite && request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/manifests/") {
			body, _ := io.ReadAll(request.Body)
			request.Body = io.NopCloser(bytes.NewReader(append(body, '\n')))
			request.ContentLength = int64(len(body)) + 1
		}
		handler.ServeHTTP(response, request)
	})))
}
