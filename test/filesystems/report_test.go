package filesystems

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// table collects the rows of one table of the report.
type table struct {
	title   string
	columns []string

	mu struct {
		sync.Mutex
		rows map[string][]string
	}
	order []string
}

// newTable makes a table whose rows come in this order.
func newTable(title string, columns []string, order []string) *table {
	tb := &table{title: title, columns: columns, order: order}
	tb.mu.rows = make(map[string][]string)
	return tb
}

// row fills a row in.
func (tb *table) row(name string, cells ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.mu.rows[name] = cells
}

// cell fills one cell in, of the columns behind the first.
func (tb *table) cell(name string, column int, text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.mu.rows[name] == nil {
		tb.mu.rows[name] = make([]string, len(tb.columns)-1)
	}
	tb.mu.rows[name][column] = text
}

// skipper is for a subtest that fills a cell in: it skips the test and puts the reason
// into the cell. A test that fails puts that there.
func (tb *table) skipper(t *testing.T, name string, column int) func(reason string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			tb.cell(name, column, "**FAILED**")
		}
	})
	return func(reason string) {
		t.Helper()
		text := "skipped"
		if column == 0 { // it is the same for the whole row
			text += ": " + reason
		}
		tb.cell(name, column, text)
		t.Skip(reason)
	}
}

// print logs the table, and appends it to the report.
func (tb *table) print(t *testing.T) {
	t.Helper()
	text := tb.text()
	t.Log("\n" + text)
	appendReport(t, text)
}

// text is the table in Markdown. Every row is in it: one that no subtest filled in says
// that.
func (tb *table) text() string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| %s |\n|%s\n", tb.title, strings.Join(tb.columns, " | "), strings.Repeat("---|", len(tb.columns)))
	for _, name := range tb.order {
		cells := tb.mu.rows[name]
		if cells == nil {
			cells = make([]string, len(tb.columns)-1)
			cells[0] = "not asked for" // by -run
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells, " | "))
	}
	return b.String()
}

func TestNoRowOfATableVanishes(t *testing.T) {
	tb := newTable("T", []string{"a", "b", "c"}, []string{"one", "two"})
	tb.cell("two", 1, "seen")
	if got, want := tb.text(), "| one | not asked for |  |\n| two |  | seen |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the table is\n%s, and should end with\n%s", got, want)
	}
}

// startReport begins the file with what was run, where and when.
func startReport(path string) error {
	if path == "" {
		return nil
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	text := fmt.Sprintf("# Filesystems\n\n%s, Linux %s, `%s=FILE go test -count=1 ./test/filesystems`\n",
		time.Now().UTC().Format(time.DateOnly), unix.ByteSliceToString(name.Release[:]), reportVariable)
	return os.WriteFile(path, []byte(text), 0o644)
}

func appendReport(t *testing.T, text string) {
	t.Helper()
	path := os.Getenv(reportVariable)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("\n" + text); err != nil {
		t.Fatal(err)
	}
}

func names(all []place) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.name
	}
	return out
}

// setupColumns are a table's columns with one per setup.
func setupColumns(first string) []string {
	columns := []string{first}
	for _, s := range setups() {
		columns = append(columns, s.String())
	}
	return columns
}
