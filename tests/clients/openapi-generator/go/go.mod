// The client of openapi-generator for Go; with the options in `run` it needs no other module.
module docket.dev/tests/clients/openapi-generator

go 1.26.0
