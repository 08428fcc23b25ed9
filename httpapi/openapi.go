package httpapi

import (
	_ "embed"
	"net/http"
	"strconv"
)

//go:embed openapi.json
var openAPIDocument []byte

// openAPI serves the description of all routes.
func (s *Server) openAPI(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	header := x.header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(openAPIDocument)))
	x.begun(http.StatusOK)
	return x.writePieces(openAPIDocument)
}
