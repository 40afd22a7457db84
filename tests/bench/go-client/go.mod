module docket.dev/bench/go-client

go 1.19
