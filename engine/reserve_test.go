package engine_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// roomFS reports that so many bytes are free.
type roomFS struct {
	device.FS
	free int64
}

func (f roomFS) Space(path string) (device.Space, error) {
	space, err := f.FS.Space(path)
	space.FreeBytes = f.free
	return space, err
}

// reserveRig is a log with segments of 64 KiB on a disk with so many bytes free.
func reserveRig(t *testing.T, free, floor int64, mode engine.FsyncMode) *orderRig {
	cfg := testConfig()
	cfg.FsyncMode, cfg.FsyncInterval = mode, 1<<40
	cfg.SegmentBytes, cfg.MinFreeBytes = reserveSegmentBytes, floor
	w := newFaultWorld("", sharedPool(t), cfg, faultdisk.Options{})
	w.cfg.FS = roomFS{w.cfg.FS, free}
	r := newRigIn(t, fastDir(t), func(cfg *engine.Config) { *cfg = w.cfg })
	return &orderRig{rig: r, disk: w.disk, mark: w.mark}
}

const reserveSegmentBytes = 64 << 10

// fill appends until the segment is nearly full, and gives where each reservation
// ended.
func (r *orderRig) fill() (ends []int64) {
	for r.active().Size < reserveSegmentBytes-1024 {
		r.appendSizes(900)
		r.log.AwaitReservation() // it runs beside the appends, and none begins before it is over
	}
	for _, e := range r.disk.Log(faultdisk.Allocate) {
		ends = append(ends, e.Pos+e.Len)
	}
	return ends
}

// A segment is in few extents where there is room for that: its second reservation
// takes the rest. With little room, a reservation is at most twice what the file
// has, and none goes past the segment. Room is what is above the floor below which
// appends are refused: reserved blocks count as used.
func TestTheSecondReservationTakesTheSegmentWhereThereIsRoom(t *testing.T) {
	const floor = 1 << 20
	whole, doubling := []int64{4 << 10, 64 << 10}, []int64{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}
	for name, c := range map[string]struct {
		free, floor int64
		want        []int64
	}{
		"room for all":                    {4 * reserveSegmentBytes, 0, whole},
		"little room":                     {4*reserveSegmentBytes - 1, 0, doubling},
		"room for all above the floor":    {floor + 4*reserveSegmentBytes, floor, whole},
		"little room above the floor":     {floor + 4*reserveSegmentBytes - 1, floor, doubling},
		"hardly more than what has to be": {floor + 1, floor, doubling},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reserveRig(t, c.free, c.floor, engine.FsyncOnCommit).fill(); !slices.Equal(got, c.want) {
				t.Errorf("reservations end at %d, want %d", got, c.want)
			}
		})
	}
}

// Under a quota the rest of a segment may be refused where less is not. What the
// refused reservation got is given back, and appends go on.
func TestAfterARefusedReservationOfTheSegmentSmallerOnesAreTried(t *testing.T) {
	r := reserveRig(t, 1<<40, 0, engine.FsyncOnCommit)
	r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Allocate, At: 2, Errno: syscall.EDQUOT})
	got := r.fill()
	if want := []int64{4 << 10, 64 << 10}; len(got) < 4 || !slices.Equal(got[:2], want) || got[2] >= reserveSegmentBytes/2 {
		t.Errorf("reservations end at %d; after %d come smaller ones", got, want)
	}
	var cuts []int64
	for _, e := range r.disk.Log(faultdisk.Truncate) {
		if isLog(e.Path) {
			cuts = append(cuts, e.Pos)
		}
	}
	if len(cuts) != 1 || cuts[0] < 2<<10 || cuts[0] > 4<<10 {
		t.Errorf("blocks were given back by cutting at %d", cuts)
	}
	if n := r.store.Stats().ReserveFailures; n != 1 {
		t.Errorf("%d failures counted", n)
	}
}

// A refused reservation is no gap below the next one: what is journaled has blocks for
// all of it, or the segment could not be brought up to the journal on a full disk.
func TestTheReservationAfterARefusedOneBeginsWhereBlocksEnd(t *testing.T) {
	r := reserveRig(t, 4*reserveSegmentBytes-1, 0, engine.FsyncOnCommit)
	r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Allocate, At: 3, Errno: syscall.ENOSPC})
	r.fill()
	log := r.disk.Log(faultdisk.Allocate)
	if len(log) < 4 {
		t.Fatalf("only %d reservations", len(log))
	}
	refused, next := log[2], log[3]
	if next.Pos >= refused.Pos+refused.Len {
		t.Errorf("refused were %d bytes at %d, and the next begins at %d", refused.Len, refused.Pos, next.Pos)
	}
}

// Under none and periodic an appender carries its own write, but does not wait for
// the disk to find room for it.
func TestAnAppendGivesUpWhileTheFirstReservationHangs(t *testing.T) {
	r := reserveRig(t, 1<<40, 0, engine.FsyncPeriodic)
	held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Allocate, Stall: true})
	ctx, cancel := context.WithCancel(r.ctx)
	appended := make(chan error, 1)
	go func() {
		_, err := r.log.Append(ctx, engine.Record{Payload: []byte("x")})
		appended <- err
	}()
	<-held.Reached()
	cancel()
	var unknown *engine.UnknownOutcomeError
	if err := <-appended; !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	held.Release()
	if err := r.log.WaitTail(r.ctx, 0); err != nil {
		t.Error(err)
	}
}
