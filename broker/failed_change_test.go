package broker_test

import (
	"errors"
	"syscall"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/internal/faultdisk"
)

// A definition that cannot be written leaves the stream as it was, and what was
// opened for the change closed, so that it can be made again.
func TestAChangeThatCannotBeWrittenDownCanBeMadeAgain(t *testing.T) {
	disk, set := faulty(t)
	r := newRig(t, set)
	full := func(change func() error) {
		t.Helper()
		for _, kind := range []faultdisk.Kinds{faultdisk.Create, faultdisk.Write, faultdisk.Flush, faultdisk.Rename} {
			put := disk.Inject(faultdisk.Fault{Kinds: kind, Errno: syscall.ENOSPC, Path: func(path string) bool { return len(path) > 4 && path[len(path)-4:] == ".tmp" }})
			err := change()
			var definition *broker.DefinitionError
			if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &definition) || definition.Replaced || put.Hits() != 1 {
				t.Errorf("%v: %v after %d hits", kind, err, put.Hits())
			}
		}
		if err := change(); err != nil {
			t.Error(err)
		}
	}
	full(func() error { return creating(name("s"), broker.StreamConfig{Durable: true, Shards: 2})(r.b) })
	s := r.stream(name("s"))
	r.fill(s, 0, 10)
	full(func() error { return s.Grow(r.ctx, 5) })
	r.fill(s, 4, 3)
	full(func() error {
		err := creating(name("s"), broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(1 << 20))})(r.b)
		if bytes := *s.Config().RetentionBytes; err != nil && bytes != 0 {
			t.Errorf("a bound of %d is in effect and not written down", bytes)
		}
		return err
	})
	full(func() error {
		_, err := s.DeleteRecords(r.ctx, 0, 6)
		if base := r.info(s, 0).Base; err != nil && base != 0 {
			t.Errorf("records up to %d are hidden, and it is not written down", base)
		}
		return err
	})
	r.reopen()
	s = r.stream(name("s"))
	if c := s.Config(); s.Shards() != 5 || *c.RetentionBytes != 1<<20 || r.info(s, 0).Base != 6 {
		t.Errorf("%+v, base %d", c, r.info(s, 0).Base)
	}
	if stats := r.b.Stats(); stats.Shards != 5 || stats.Streams != 1 {
		t.Errorf("%+v", stats)
	}
}
