package workload

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Kind is what an Event tells.
type Kind string

// The kinds, as lines begin.
const (
	// Image begins what is told of a disk image; Bound is its number.
	Image Kind = "IMAGE"
	// Opening: a store is about to be opened, and recovered.
	Opening Kind = "OPENING"
	// Have tells what is in a log after recovery: records from Base up to, not
	// including, Bound, all of which were read and are right.
	Have Kind = "HAVE"
	// Bad tells, in Text, what is wrong with a log, or with a store.
	Bad Kind = "BAD"
	// Ready: everything was read, and appends begin.
	Ready Kind = "READY"
	// Acked: records up to and including Bound are acknowledged.
	Acked Kind = "ACK"
	// Durable: the log reported all records below Bound as durable.
	Durable Kind = "DURABLE"
	// Done: everything was closed.
	Done Kind = "DONE"
)

// Event is one line.
type Event struct {
	Kind       Kind
	Store, Log string
	Base       uint64
	Bound      uint64
	Text       string
}

// ending ends every line: what is cut off in the middle of a number must not pass for a
// smaller number.
const ending = " ."

// String is the line, without its end.
func (e Event) String() string {
	switch e.Kind {
	case Image:
		return fmt.Sprintf("%s %d%s", e.Kind, e.Bound, ending)
	case Opening:
		return fmt.Sprintf("%s %s%s", e.Kind, e.Store, ending)
	case Have:
		return fmt.Sprintf("%s %s %s %d %d%s", e.Kind, e.Store, e.Log, e.Base, e.Bound, ending)
	case Bad:
		text := strings.ReplaceAll(strings.ReplaceAll(e.Text, "\r", " "), "\n", " ")
		return fmt.Sprintf("%s %s %s %s%s", e.Kind, e.Store, e.Log, text, ending)
	case Acked, Durable:
		return fmt.Sprintf("%s %s %s %d%s", e.Kind, e.Store, e.Log, e.Bound, ending)
	default:
		return string(e.Kind) + ending
	}
}

// ParseEvent reads a line; ok is false for every other line, and for one that lacks its
// end.
func ParseEvent(line string) (e Event, ok bool) {
	line, ok = strings.CutSuffix(strings.TrimRight(line, "\r\n"), ending)
	if !ok {
		return Event{}, false
	}
	word, rest, _ := strings.Cut(line, " ")
	e.Kind = Kind(word)
	fields := strings.Fields(rest)
	switch e.Kind {
	case Ready, Done:
		return e, rest == ""
	case Image:
		return e, len(fields) == 1 && number(fields[0], &e.Bound)
	case Opening:
		e.Store = rest
		return e, len(fields) == 1
	case Bad:
		if len(fields) < 2 {
			return Event{}, false
		}
		e.Store, e.Log = fields[0], fields[1]
		e.Text = strings.Join(fields[2:], " ")
		return e, true
	case Acked, Durable:
		if len(fields) != 3 {
			return Event{}, false
		}
		e.Store, e.Log = fields[0], fields[1]
		return e, number(fields[2], &e.Bound)
	case Have:
		if len(fields) != 4 {
			return Event{}, false
		}
		e.Store, e.Log = fields[0], fields[1]
		return e, number(fields[2], &e.Base) && number(fields[3], &e.Bound)
	default:
		return Event{}, false
	}
}

func number(text string, to *uint64) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	*to = n
	return err == nil
}

// lines writes events, a line in one write each.
type lines struct {
	mu struct {
		sync.Mutex
		to  io.Writer
		err error
	}
}

func newLines(to io.Writer) *lines {
	l := &lines{}
	l.mu.to = to
	return l
}

// tell writes one line. Nobody can be told of a failure; failed keeps the first.
func (l *lines) tell(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.mu.to, e.String()+"\n"); err != nil && l.mu.err == nil {
		l.mu.err = err
	}
}

func (l *lines) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.err
}
