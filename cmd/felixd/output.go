package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// outputFlags choose how results are written.
type outputFlags struct {
	JSON bool `name:"json" help:"write one JSON object per line; the default when standard output is no terminal"`
}

// event is one result: a JSON object for programs, text for people.
type event interface {
	// kind is the value of the object's "event" field.
	kind() string
	// text is what people read, without a final newline; empty to print nothing.
	text() string
}

// output writes events. Each is one write, so that a reader of a pipe sees whole
// lines at once and a killed process leaves none buffered.
type output struct {
	w    io.Writer
	json bool
}

func (a *app) output(flags outputFlags) *output {
	return &output{w: a.stdout, json: flags.JSON || !isTerminal(a.stdout)}
}

func (o *output) emit(e event) error {
	if o.json {
		line, err := encodeEvent(e)
		if err != nil {
			return err
		}
		_, err = o.w.Write(line)
		return err
	}
	if text := e.text(); text != "" {
		_, err := fmt.Fprintln(o.w, text)
		return err
	}
	return nil
}

// encodeEvent puts the kind in front of the event's own fields.
func encodeEvent(e event) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	fields := b.Bytes()
	head := fmt.Appendf(nil, `{"event":%q`, e.kind())
	if string(fields) != "{}\n" {
		head = append(head, ',')
	}
	return append(head, fields[1:]...), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
