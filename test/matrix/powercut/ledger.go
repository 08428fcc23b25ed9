package powercut

import (
	"fmt"

	"felix.local/felix/test/matrix/powercut/workload"
)

// Finding is something that must not be.
type Finding struct {
	Log workload.Log
	// Lost is how many promised records are gone; 0 when something else is wrong.
	Lost uint64
	Text string
}

// String names the log and what is wrong.
func (f Finding) String() string { return fmt.Sprintf("%s/%s: %s", f.Log.Store, f.Log.Log, f.Text) }

// Ledger holds what the logs of a disk have promised, and judges what is found of them
// after a power cut.
//
// Under on_commit an acknowledgement is a promise; under periodic and none it is not, but
// what a log reported durable is, in every mode. Whatever is there has to be a prefix of
// what was appended, without a gap and with the right payloads, also where it was never
// promised.
type Ledger struct {
	stores map[string]workload.Store
	bounds map[workload.Log]workload.Bound
	heard  map[workload.Log]bool
	// LetGo counts records that were acknowledged, not promised, and are gone.
	LetGo map[string]uint64
	// Held counts the records of a store that had to be there, each time a log was found.
	Held map[string]uint64
	// Found counts the records that were read back last.
	Found map[workload.Log]uint64
}

// NewLedger begins with what is promised already; nil for nothing.
func NewLedger(stores []workload.Store, promised map[workload.Log]workload.Bound) *Ledger {
	l := &Ledger{
		stores: make(map[string]workload.Store), bounds: make(map[workload.Log]workload.Bound),
		heard: make(map[workload.Log]bool), LetGo: make(map[string]uint64), Held: make(map[string]uint64), Found: make(map[workload.Log]uint64),
	}
	for _, s := range stores {
		l.stores[s.Name] = s
	}
	for at, b := range promised {
		l.bounds[at] = b
	}
	return l
}

// Start begins a start of the machine: nothing was heard of any log yet. Promises stay,
// since power may go out again before they are looked at.
func (l *Ledger) Start() { clear(l.heard) }

// Take notes what an event promises, and judges what it says is there.
func (l *Ledger) Take(e workload.Event) []Finding {
	at := workload.Log{Store: e.Store, Log: e.Log}
	b := l.bounds[at]
	switch e.Kind {
	case workload.Acked:
		b.Acked = max(b.Acked, e.Bound+1)
	case workload.Durable:
		b.Durable = max(b.Durable, e.Bound)
	case workload.Have:
		return l.have(at, e)
	case workload.Bad:
		l.heard[at] = true
		return []Finding{{Log: at, Text: e.Text}}
	case workload.Ready, workload.Done:
		return l.unheard()
	default:
		return nil
	}
	l.bounds[at] = b
	return nil
}

// have judges a log that recovery left with records from Base up to Bound, which were
// read and are right. From here on they are promised: recovery made them durable.
func (l *Ledger) have(at workload.Log, e workload.Event) (found []Finding) {
	b := l.bounds[at]
	promised := l.promise(at)
	l.Held[at.Store] += promised
	if e.Bound < promised {
		found = append(found, Finding{at, promised - e.Bound, fmt.Sprintf(
			"records %d to %d are gone, acknowledged up to %d and durable up to %d", e.Bound, promised-1, b.Acked, b.Durable)})
	}
	if e.Base != 0 {
		found = append(found, Finding{at, e.Base, fmt.Sprintf("the log begins at %d, nothing was removed", e.Base)})
	}
	if edge := max(promised, e.Bound); b.Acked > edge {
		l.LetGo[at.Store] += b.Acked - edge
	}
	l.heard[at] = true
	l.Found[at] = e.Bound - min(e.Base, e.Bound)
	l.bounds[at] = workload.Bound{Acked: e.Bound, Durable: e.Bound}
	return found
}

// promise is how far a log has to be there.
func (l *Ledger) promise(at workload.Log) uint64 {
	b := l.bounds[at]
	if l.stores[at.Store].Mode == "on_commit" {
		return max(b.Durable, b.Acked)
	}
	return b.Durable
}

// Promised is the number of records that have to be there, over all logs.
func (l *Ledger) Promised() (sum uint64) {
	for at := range l.bounds {
		sum += l.promise(at)
	}
	return sum
}

// Records is the number of records that were read back last, over all logs.
func (l *Ledger) Records() (sum uint64) {
	for _, n := range l.Found {
		sum += n
	}
	return sum
}

// unheard are the logs that nothing was told of when everything should have been.
func (l *Ledger) unheard() (found []Finding) {
	for _, shape := range workload.Shapes() {
		for name := range l.stores {
			if at := (workload.Log{Store: name, Log: shape.Log}); !l.heard[at] && !l.heard[workload.Log{Store: name, Log: "*"}] {
				found = append(found, Finding{Log: at, Text: "nothing was told of it"})
				l.heard[at] = true
			}
		}
	}
	return found
}
