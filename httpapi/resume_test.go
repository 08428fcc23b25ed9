package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Readers that leave and resume all the time, beside publishers: each sees every
// record once, in the one order.
func TestReadersThatResumeSeeEveryRecordOnceInOrder(t *testing.T) {
	const publishers, each, readers, stay = 8, 40, 4, 30
	f := start(t, durable(t, t.TempDir()), Config{})
	f.stream("")
	acknowledged := make([]string, publishers*each)
	var work sync.WaitGroup
	for p := range publishers {
		work.Go(func() {
			for i := range each {
				value := fmt.Sprintf("%d of publisher %d", i, p)
				got, err := f.publishBeside(value)
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged[got.First] = value
			}
		})
	}
	seen := make([][]string, readers)
	for r := range readers {
		work.Go(func() {
			resume := ""
			for len(seen[r]) < len(acknowledged) && !t.Failed() {
				seen[r] = f.readSome(seen[r], min(stay, len(acknowledged)-len(seen[r])), resume)
				resume = fmt.Sprintf("Last-Event-ID: %d", len(seen[r])-1)
			}
		})
	}
	work.Wait()
	for r := range readers {
		for offset, value := range acknowledged {
			if offset >= len(seen[r]) || seen[r][offset] != value {
				t.Fatalf("reader %d differs at offset %d, which was acknowledged for %q", r, offset, value)
			}
		}
	}
}

// readSome subscribes, appends n records to what was seen, and leaves.
func (f *fixture) readSome(seen []string, n int, resume string) []string {
	ctx, leave := context.WithTimeout(f.t.Context(), patience)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, "GET", f.base+orders+"/subscribe?from=earliest", nil)
	if err != nil {
		f.t.Error(err)
		return seen
	}
	if name, value, found := strings.Cut(resume, ": "); found {
		request.Header.Set(name, value)
	}
	response, err := f.client.Do(request)
	if err != nil {
		f.t.Error(err)
		return seen
	}
	defer response.Body.Close()
	e := &events{t: f.t, lines: bufio.NewReader(response.Body), sse: true}
	for n > 0 {
		name, l, err := e.next()
		switch {
		case err != nil || name == "record" && l.Offset != uint64(len(seen)):
			f.t.Errorf("%s %+v, %v after %d records", name, l, err, len(seen))
			return seen
		case name == "record":
			seen, n = append(seen, *l.Text), n-1
		}
	}
	return seen
}

// publishBeside appends a record from a goroutine that is not the test's.
func (f *fixture) publishBeside(value string) (got published, err error) {
	request, err := http.NewRequestWithContext(f.t.Context(), "POST", f.base+orders+"/records", strings.NewReader(value))
	if err != nil {
		return got, err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	return got, json.NewDecoder(response.Body).Decode(&got)
}
