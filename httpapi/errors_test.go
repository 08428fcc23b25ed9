package httpapi

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// brokerDefaults is an in-memory broker.
var brokerDefaults = broker.Config{}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// notMet are the errors that no request here can come to: those of a start, before
// there is a server, and of replication.
func notMet() []string {
	return []string{
		"*engine.IdentityError", "*engine.RegistrationError",
		"*engine.JournalPendingError", "*engine.JournalUnavailableError",
		"*engine.BelowCommitError", "*engine.DivergedError", "*engine.HistoryError", "*engine.OutsideLogError",
		"*engine.OffsetMismatchError", "*engine.ShipmentGapError",
	}
}

// errorTypes gives the exported types of a package that have a method Error, but those
// that are not met.
func errorTypes(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			method, ok := d.(*ast.FuncDecl)
			if !ok || method.Recv == nil || method.Name.Name != "Error" {
				continue
			}
			star, ok := method.Recv.List[0].Type.(*ast.StarExpr)
			if !ok || !ast.IsExported(star.X.(*ast.Ident).Name) {
				continue
			}
			if name := "*" + file.Name.Name + "." + star.X.(*ast.Ident).Name; !slices.Contains(notMet(), name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestEveryErrorOfBrokerAndEngineIsInTheTable(t *testing.T) {
	known := make(map[string]bool)
	for kind := range errorRows() {
		known[kind.String()] = true
	}
	for _, dir := range []string{"../broker", "../engine"} {
		types := errorTypes(t, dir)
		if len(types) < 10 {
			t.Fatalf("only %d error types found in %s", len(types), dir)
		}
		for _, name := range types {
			if !known[name] {
				t.Errorf("%s is not in the table of errors", name)
			}
		}
	}
}

func TestEveryRowSaysWhatToDo(t *testing.T) {
	seen := make(map[reflect.Type]bool)
	for _, row := range errorTable() {
		if row.base.status < 400 || row.base.code == "" || row.base.action == "" {
			t.Errorf("%s: %+v", row.kind, row.base)
		}
		if seen[row.kind] {
			t.Errorf("%s is in the table twice", row.kind)
		}
		seen[row.kind] = true
		if row.base.status == http.StatusTooManyRequests && row.base.retrySeconds == 0 {
			t.Errorf("%s does not say when to try again", row.kind)
		}
	}
}

func TestWrappedErrorsAreExplainedByTheOneThatSaysMost(t *testing.T) {
	server := must(New(Config{Broker: inMemory(t, brokerDefaults), Logger: quiet()}))
	name := broker.StreamName{Tenant: "a", Namespace: "b", Stream: "c"}
	poisoned := &engine.PoisonedError{Label: "a/b/c/0", Cause: errors.New("EIO")}
	full := &engine.FullError{Label: "a/b/c/0", Cause: engine.ErrFull}
	for _, c := range []struct {
		err    error
		status int
		code   string
		field  string
		value  any
	}{
		{&broker.UnavailableError{Stream: name, State: broker.StatePoisoned, Err: poisoned}, 503, "unavailable", "state", "poisoned"},
		{&broker.UnavailableError{Stream: name, State: broker.StateRefused, Err: errors.New("torn")}, 503, "unavailable", "state", "refused"},
		{poisoned, 503, "unavailable", "state", "poisoned"},
		{fmt.Errorf("appending: %w", full), 507, "storage_full", "", nil},
		{&engine.LogError{Err: full}, 507, "storage_full", "", nil},
		{&engine.LogError{Err: engine.ErrFull}, 507, "storage_full", "", nil},
		{&engine.LogError{Err: errors.New("EMFILE")}, 503, "storage_error", "", nil},
		{&broker.DefinitionError{Err: engine.ErrFull}, 507, "storage_full", "", nil},
		{errors.Join(errors.New("x"), &broker.CursorTooOldError{Requested: 3, Oldest: 7}), 410, "cursor_too_old", "oldest", uint64(7)},
		{&engine.TrimmedError{Requested: 3, Oldest: 7}, 410, "cursor_too_old", "requested", uint64(3)},
		{&engine.UnknownOutcomeError{First: 5, Cause: context.DeadlineExceeded}, 504, "unknown_outcome", "first_offset", uint64(5)},
		{&engine.BackPressureError{Bound: "X", Cause: context.DeadlineExceeded}, 429, "back_pressure", "bound", "X"},
		{context.DeadlineExceeded, 504, "timeout", "", nil},
		{publishError(server, context.DeadlineExceeded), 504, "unknown_outcome", "", nil},
		{errors.New("something"), 500, "internal", "", nil},
	} {
		p := server.explain(c.err)
		if p.status != c.status || p.code != c.code || c.field != "" && p.more[c.field] != c.value {
			t.Errorf("%v: %+v", c.err, p)
		}
		if p.message == "" || p.action == "" {
			t.Errorf("%v: no message or no action", c.err)
		}
	}
	if p := server.explain(errors.New("secret /path")); strings.Contains(p.message, "secret") {
		t.Errorf("an unknown error is told to the client: %s", p.message)
	}
}

func TestFieldsOfOneErrorDoNotReachAnother(t *testing.T) {
	server := must(New(Config{Broker: inMemory(t, brokerDefaults), Logger: quiet()}))
	first := server.explain(&broker.CursorTooOldError{Oldest: 1})
	server.explain(&broker.CursorTooOldError{Oldest: 2})
	if first.more["oldest"] != uint64(1) {
		t.Errorf("%v", first.more)
	}
}

func TestMemoryThatIsFullIsTriedAgain(t *testing.T) {
	f := start(t, inMemory(t, broker.Config{MemoryBytesTotal: 1000}), Config{})
	f.stream(`{"durable":false}`)
	r := f.send("POST", orders+"/records", strings.Repeat("x", 2000))
	if refused := r.refused(http.StatusTooManyRequests, "memory_full"); refused["max"] != 1000.0 || r.header.Get("Retry-After") == "" {
		t.Errorf("%v %v", refused, r.header)
	}
}
