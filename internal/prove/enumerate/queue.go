package enumerate

import (
	"cmp"
	"slices"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

// heldQueue does nothing by itself: what is submitted waits until the driver of
// the workload, when all goroutines wait, has the disk take one step. That makes
// the order of changes one and the same on every run.
//
// Operations are issued in the order of path, kind and position among those that
// arrived together, so a flush covers what had landed when all goroutines waited.
type heldQueue struct {
	stepped *simdisk.Queue
	// newestFirst completes what was submitted last before anything older.
	newestFirst bool
	mu          struct {
		sync.Mutex
		arrived []*device.Op
	}
}

func newHeldQueue(disk *simdisk.Disk, newestFirst bool) *heldQueue {
	return &heldQueue{stepped: disk.NewQueue(simdisk.QueueOptions{Mode: simdisk.Stepped}), newestFirst: newestFirst}
}

// Submit keeps operations for the next step.
func (q *heldQueue) Submit(ops ...*device.Op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, op := range ops {
		op.Prepare() // whoever submits may wait from now on
		q.mu.arrived = append(q.mu.arrived, op)
	}
}

// Stats are those of the queue behind.
func (q *heldQueue) Stats() device.QueueStats { return q.stepped.Stats() }

// Close ends the queue; nothing may be under way.
func (q *heldQueue) Close() error { return q.stepped.Close() }

// step issues what arrived and completes one operation, but none on a file that
// is held; false says that there is no such operation.
func (q *heldQueue) step(held func(path string) bool) bool {
	q.mu.Lock()
	arrived := q.mu.arrived
	q.mu.arrived = nil
	q.mu.Unlock()
	slices.SortStableFunc(arrived, func(a, b *device.Op) int {
		return cmp.Or(cmp.Compare(a.File.Name(), b.File.Name()), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Pos, b.Pos))
	})
	q.stepped.Submit(arrived...)
	pending := q.stepped.Pending()
	if q.newestFirst {
		slices.Reverse(pending)
	}
	for _, op := range pending {
		if !held(op.Path) {
			q.stepped.Step(op.ID)
			return true
		}
	}
	return false
}
