package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"
)

// loaded is the document, read once for all tests.
var loaded = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(openAPIDocument)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(loader.Context)
})

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := loaded()
	if err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	return doc
}

// conform holds JSON against a schema of the document.
func conform(t *testing.T, schema string, text []byte) {
	t.Helper()
	var value any
	decode(t, text, &value)
	if err := document(t).Components.Schemas[schema].Value.VisitJSON(value); err != nil {
		t.Errorf("%s is no %s: %v", text, schema, err)
	}
}

// checked is a transport that holds every answer against the document.
type checked struct {
	t        *testing.T
	next     http.RoundTripper
	document *openapi3.T
}

func (c *checked) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if problem := c.check(request, response); problem != nil {
		c.t.Errorf("%s %s: %v", request.Method, request.URL, problem)
	}
	return response, nil
}

func (c *checked) check(request *http.Request, response *http.Response) error {
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	var body []byte
	if media == "application/json" {
		var err error
		if body, err = io.ReadAll(response.Body); err != nil {
			return err
		}
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
	}
	if response.StatusCode >= 400 && request.Method != http.MethodHead {
		conform(c.t, "Error", body)
	}
	route := c.find(request)
	if route == nil {
		if response.StatusCode < 400 {
			return fmt.Errorf("status %d where the document has nothing", response.StatusCode)
		}
		return nil
	}
	return openapi3filter.ValidateResponse(request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: route},
		Status:                 response.StatusCode,
		Header:                 response.Header,
		Body:                   io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			// Streams and payloads are held against their schemas by whoever reads them.
			ExcludeResponseBody: media != "application/json",
		},
	})
}

// find gives the operation that the document has for a request.
func (c *checked) find(request *http.Request) *routers.Route {
	mux := http.NewServeMux()
	for path := range c.document.Paths.Map() {
		mux.Handle(path, http.NotFoundHandler())
	}
	if !clean(request.URL.EscapedPath()) {
		return nil
	}
	_, path := mux.Handler(request)
	item := c.document.Paths.Value(path)
	if item == nil || item.GetOperation(request.Method) == nil {
		return nil
	}
	return &routers.Route{Spec: c.document, Path: path, PathItem: item, Method: request.Method, Operation: item.GetOperation(request.Method)}
}

func TestTheDocumentAndTheRoutesAreTheSame(t *testing.T) {
	server := must(New(Config{Broker: inMemory(t, brokerDefaults)}))
	var served, described []string
	for _, r := range server.routes {
		if r != server.unknown {
			served = append(served, r.name+" "+r.method+" "+r.path)
		}
	}
	for path, item := range document(t).Paths.Map() {
		for method, operation := range item.Operations() {
			described = append(described, operation.OperationID+" "+method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("(-served +described):\n%s", diff)
	}
}

func TestTheDocumentNamesTheParametersThatTheRoutesTake(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	names := strings.NewReplacer("{tenant}", "acme", "{namespace}", "shop", "{stream}", "orders")
	for path, item := range document(t).Paths.Map() {
		for method, operation := range item.Operations() {
			known := []string{}
			for _, p := range operation.Parameters {
				if p.Value.In == "query" {
					known = append(known, p.Value.Name)
				}
			}
			refused := f.send(method, names.Replace(path)+"?no_such=1", "").refused(http.StatusBadRequest, codeInvalidParameter)
			if refused["parameter"] != "no_such" || refused["action"] != knownParameters(known) {
				t.Errorf("%s %s: %v; the document has %q", method, path, refused, known)
			}
		}
	}
}

func TestTheDocumentIsServedWithoutCredentials(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{Credentials: credentials(t)})
	r := f.send("GET", "/v1/openapi.json", "").want(http.StatusOK)
	if !bytes.Equal(r.body, openAPIDocument) {
		t.Error("it is another one")
	}
}

func TestEveryCodeOfTheTableIsInTheDocument(t *testing.T) {
	text := string(openAPIDocument)
	for _, row := range errorTable() {
		if !strings.Contains(text, row.base.code) {
			t.Errorf("%s is not in the document", row.base.code)
		}
		if document(t).Components.Responses[fmt.Sprintf("E%d", row.base.status)] == nil {
			t.Errorf("status %d is not in the document", row.base.status)
		}
	}
	if !json.Valid(openAPIDocument) {
		t.Error("the document is no JSON")
	}
}
