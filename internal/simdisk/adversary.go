package simdisk

import (
	"hash/fnv"
	"path/filepath"
	"runtime"
	"time"

	"felix.local/felix/device"
)

// likeness groups operations that draw from the same row of numbers.
type likeness struct {
	name string
	kind device.Kind
	pos  int64
}

// chooseLocked draws what becomes of a job. The numbers depend on the seed, the
// file's name, the operation and how many like it came before, and not on what
// other goroutines submit, so that a seed gives the same run under another
// schedule as far as that can be.
func (q *Queue) chooseLocked(j *job) {
	if q.options.Mode != Adversarial {
		return
	}
	like := likeness{filepath.Base(j.op.File.Name()), j.op.Kind, j.op.Pos}
	q.mu.seen[like]++
	h := fnv.New64a()
	h.Write([]byte(like.name))
	mixed := h.Sum64() ^ uint64(like.kind)<<56 ^ uint64(like.pos)*0x9E3779B97F4A7C15 ^ q.mu.seen[like]<<32
	j.rand = NewRand(q.options.Seed ^ NewRand(mixed).Next())
	j.pieces = j.rand.pieces(j.op.Pos, j.left(), q.options.ShortPercent)
	j.due = q.nowLocked() + j.rand.delay(q.options.DelayMax)
	if j.rand.Coin() {
		j.due = q.nowLocked() // the first piece lands at once
	}
}

// pieces divides a write of n bytes at pos, at sectors.
func (r *Rand) pieces(pos int64, n, shortPercent int) []int {
	if n == 0 {
		return nil
	}
	var pieces []int
	for len(pieces) < 2 && int(r.Below(100)) < shortPercent {
		piece := r.wholeSectors(pos, n-1)
		if piece == 0 {
			break
		}
		pieces = append(pieces, piece)
		pos += int64(piece)
		n -= piece
	}
	return append(pieces, n)
}

// delay is often a few microseconds and seldom up to longest.
func (r *Rand) delay(longest time.Duration) time.Duration {
	steps := uint64(1)
	for time.Microsecond<<steps < longest {
		steps++
	}
	bound := min(longest, time.Microsecond<<(1+r.Below(steps)))
	return time.Duration(r.Below(uint64(bound)) + 1)
}

func (q *Queue) nowLocked() time.Duration {
	if q.options.Sleep {
		return time.Since(q.started)
	}
	return q.mu.now
}

// drive works on the window until it is empty. There is at most one driver.
func (q *Queue) drive() {
	defer q.running.Done()
	for {
		q.yield()
		j, wait := q.next()
		switch {
		case j == nil:
			return
		case wait > 0:
			q.sleep(wait)
		case q.move(j):
			q.remove(j)
			q.finish(j)
		}
	}
}

// yields is how often the driver lets others run before it decides, so that what
// they are about to submit takes part in the order.
const yields = 4

func (q *Queue) yield() {
	if q.options.Sleep {
		return
	}
	for range yields {
		runtime.Gosched()
	}
}

// next gives the job that is due first, and how long that is from now. Without a
// job the driver has ended.
func (q *Queue) next() (*job, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fillLocked()
	var first *job
	for _, j := range q.mu.window {
		if first == nil || j.due < first.due {
			first = j
		}
	}
	if first == nil {
		q.mu.driving = false
		return nil, 0
	}
	if !q.options.Sleep {
		q.mu.now = max(q.mu.now, first.due)
	}
	return first, first.due - q.nowLocked()
}

func (q *Queue) sleep(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.wake:
	}
}

// move lands the next piece, or settles the job; it reports that the job is to
// complete. Half of the completions come some time after the device was done.
func (q *Queue) move(j *job) (done bool) {
	switch {
	case len(j.pieces) > 0:
		q.advance(j, j.pieces[0])
		j.pieces = j.pieces[1:]
	case !j.settled:
		q.settle(j)
		if j.rand.Coin() {
			return true
		}
	default:
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	j.due = q.nowLocked() + j.rand.delay(q.options.DelayMax)
	return false
}

// remove takes a job out of the window.
func (q *Queue) remove(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.mu.window {
		if other == j {
			q.mu.window = append(q.mu.window[:i], q.mu.window[i+1:]...)
			break
		}
	}
	q.fillLocked()
}
