package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

const (
	historyClients      = 5
	historyOpsPerClient = 5
)

// isPoisoned says that an error tells of a poisoned log.
func isPoisoned(err error) bool { return errors.Is(err, engine.ErrPoisoned) }

// historyPayload is a record that tells its number.
func historyPayload(number int) string {
	return fmt.Sprintf("%d|%s", number, strings.Repeat(".", number*37%150))
}

// historyClient is one of those that use a log at the same time.
type historyClient struct {
	*historyEpoch
	number int
	random *rand.Rand
}

func (c *historyClient) run() {
	for range historyOpsPerClient {
		call, ok := c.recorder.begin()
		if !ok {
			return
		}
		switch n := c.random.IntN(100); {
		case n < 45:
			c.append(call)
		case n < 68:
			c.read(call)
		case n < 80:
			c.look(call)
		case n < 88 && c.truncates:
			c.truncate(call)
		case n < 93:
			c.trim(call)
		case n < 97:
			c.seal(call)
		default:
			c.sync(call)
		}
		if c.random.IntN(6) == 0 {
			c.disk.WriteBack(c.random.Uint64())
		}
	}
}

// append sometimes gives up while the disk holds an operation.
func (c *historyClient) append(call int64) {
	numbers := c.recorder.name(historyPayload, 1+c.random.IntN(3))
	records := make([]engine.Record, len(numbers))
	for i, number := range numbers {
		records[i].Payload = []byte(historyPayload(number))
	}
	ctx, done := c.ctx, func() {}
	if c.random.IntN(3) == 0 {
		ctx, done = c.impatience.join(c.ctx)
	}
	defer done()
	var (
		got engine.AppendResult
		err error
	)
	if c.random.IntN(4) == 0 {
		var handle engine.Pending
		if handle, err = c.log.AppendAsync(ctx, records...); err == nil {
			got, err = handle.Wait(ctx)
		}
	} else {
		got, err = c.log.Append(ctx, records...)
	}
	c.recorder.end(c.number, call, err, func(lost bool) []*historyOp {
		op := &historyOp{kind: opAppend, records: numbers}
		var unknown *engine.UnknownOutcomeError
		switch {
		case lost || isPoisoned(err):
			op.outcome = outcomeUnknown
		case err == nil:
			op.first, op.placed = got.First, true
			if got.Last-got.First+1 != uint64(len(numbers)) {
				c.problem("an append of %d records got offsets %v", len(numbers), got)
			}
		case errors.As(err, &unknown):
			op.outcome, op.first, op.placed = outcomeUnknown, unknown.First, true
		default:
			op.outcome = outcomeNone
			c.wantUsable("append", err)
		}
		return []*historyOp{op}
	})
}

// wantUsable accepts the errors that say that nothing happened.
func (c *historyClient) wantUsable(what string, err error) {
	var (
		full     *engine.FullError
		failed   *engine.LogError
		pressure *engine.BackPressureError
	)
	if !errors.As(err, &full) && !errors.As(err, &failed) && !errors.As(err, &pressure) {
		c.problem("%s: %v (%T)", what, err, err)
	}
}

func (c *historyClient) read(call int64) {
	base, tail := c.log.BaseOffset(), c.log.TailOffset()
	from := base
	switch n := c.random.IntN(10); {
	case n < 5:
		from = max(base, tail-min(tail, c.random.Uint64N(6)))
	case n < 8:
		from += c.random.Uint64N(8)
	case n < 9:
		from -= min(from, 1)
	}
	got, err := c.log.ReadRange(c.ctx, from, 1<<20)
	c.recorder.end(c.number, call, err, func(lost bool) []*historyOp {
		var trimmed *engine.TrimmedError
		switch {
		case lost:
			return nil
		case errors.As(err, &trimmed):
			return []*historyOp{{kind: opTrimmed, at: from, value: trimmed.Oldest}}
		case err != nil:
			// Where a flush failed, the page cache may show what the device holds
			// before the log was told: a loud error.
			var damage *segment.Corruption
			if !errors.As(err, &damage) || c.disk.Counts().FailedSyncs == 0 {
				c.problem("a read at %d: %v", from, err)
			}
			return nil
		default:
			return []*historyOp{{kind: opRead, at: from, records: c.recorder.numbersLocked(from, got)}}
		}
	})
}

// numbersLocked tells records by their payloads; -1 is none that was appended,
// or one at an offset that does not follow.
func (r *historyRecorder) numbersLocked(from uint64, got []segment.Record) []int {
	numbers := make([]int, len(got))
	for i, record := range got {
		number := -1
		_, err := fmt.Sscanf(string(record.Payload), "%d|", &number)
		if err != nil || number < 0 || number >= len(r.payloads) ||
			r.payloads[number] != string(record.Payload) || record.Offset != from+uint64(i) {
			number = -1
		}
		numbers[i] = number
	}
	return numbers
}

// look asks for one of the bounds.
func (c *historyClient) look(call int64) {
	op := &historyOp{}
	switch c.random.IntN(3) {
	case 0:
		op.kind, op.value = opBase, c.log.BaseOffset()
	case 1:
		op.kind, op.value = opTail, c.log.TailOffset()
	default:
		op.kind, op.value = opDurable, c.log.DurableOffset()
	}
	c.recorder.end(c.number, call, nil, func(lost bool) []*historyOp {
		if lost {
			return nil
		}
		return []*historyOp{op}
	})
}

func (c *historyClient) truncate(call int64) {
	base, tail := c.log.BaseOffset(), c.log.TailOffset()
	at := tail - min(tail, c.random.Uint64N(5))
	if c.random.IntN(5) == 0 {
		at = base - min(base, c.random.Uint64N(3))
	}
	c.cuts.Store(true)
	err := c.log.Truncate(c.ctx, at)
	c.recorder.end(c.number, call, err, func(lost bool) []*historyOp {
		op := &historyOp{kind: opTruncate, call: int(call), at: at}
		switch {
		case lost || isPoisoned(err):
			op.outcome = outcomeUnknown
		case err == nil:
			return []*historyOp{op, {kind: opTruncated, call: int(call)}}
		default:
			op.outcome = outcomeNone
			c.wantUsable("truncate", err)
		}
		return []*historyOp{op}
	})
}

func (c *historyClient) trim(call int64) {
	got, err := c.log.EnforceRetention(c.ctx)
	c.recorder.end(c.number, call, err, func(lost bool) []*historyOp {
		begin := &historyOp{kind: opTrim, call: int(call), value: got.BaseOffset}
		end := &historyOp{kind: opTrimDone, value: got.BaseOffset}
		switch {
		case lost || err != nil:
			if !lost && !isPoisoned(err) {
				c.wantUsable("retention", err)
			}
			begin.outcome, begin.value = outcomeUnknown, math.MaxUint64
			return []*historyOp{begin}
		case got.Segments <= 1:
			return []*historyOp{end}
		default:
			end.call = begin.call
			return []*historyOp{begin, end}
		}
	})
}

func (c *historyClient) seal(call int64) {
	got, err := c.log.Seal(c.ctx)
	c.recorder.end(c.number, call, err, func(lost bool) []*historyOp {
		if err == nil && !lost {
			return []*historyOp{{kind: opSeal, value: got.Descriptor.NextOffset}}
		}
		if !lost && !isPoisoned(err) {
			c.wantUsable("seal", err)
		}
		return nil
	})
}

func (c *historyClient) sync(call int64) {
	err := c.log.Sync(c.ctx)
	c.recorder.end(c.number, call, err, func(lost bool) []*historyOp {
		if err == nil && !lost {
			return []*historyOp{{kind: opSync, call: int(call)}, {kind: opSynced, call: int(call)}}
		}
		if !lost && !isPoisoned(err) {
			c.problem("sync: %v", err)
		}
		return nil
	})
}

// impatience are the callers that give up when they are told to.
type impatience struct {
	mu struct {
		sync.Mutex
		over    bool
		cancels map[int]context.CancelFunc
		next    int
		none    chan struct{} // closed when nobody is left, once over
	}
}

func newImpatience() *impatience {
	i := &impatience{}
	i.mu.cancels = make(map[int]context.CancelFunc)
	i.mu.none = make(chan struct{})
	return i
}

// join gives a context that ends with giveUp. What joins later is patient.
func (i *impatience) join(ctx context.Context) (context.Context, func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.over {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	number := i.mu.next
	i.mu.next++
	i.mu.cancels[number] = cancel
	return ctx, func() {
		cancel()
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.mu.cancels, number)
		i.noneLocked()
	}
}

func (i *impatience) noneLocked() {
	if i.mu.over && len(i.mu.cancels) == 0 && i.mu.none != nil {
		close(i.mu.none)
		i.mu.none = nil
	}
}

// giveUp ends the contexts. The channel is closed when nobody whose context ended
// is still in a call.
func (i *impatience) giveUp() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	none := i.mu.none
	i.mu.over = true
	for _, cancel := range i.mu.cancels {
		cancel()
	}
	i.noneLocked()
	return none
}
