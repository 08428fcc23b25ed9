package engine_test

import (
	"slices"
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

// A segment is in few extents where there is room for that: its second reservation
// takes the rest. With little room, a reservation is at most twice what the file
// has, and none goes past the segment.
func TestTheSecondReservationTakesTheSegmentWhereThereIsRoom(t *testing.T) {
	const segmentBytes = 64 << 10
	for name, c := range map[string]struct {
		free int64
		want []int64 // where reservations end
	}{
		"room for all": {4 * segmentBytes, []int64{4 << 10, segmentBytes}},
		"little room":  {4*segmentBytes - 1, []int64{4 << 10, 8 << 10, 16 << 10, 32 << 10, segmentBytes}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.SegmentBytes = segmentBytes
			w := newFaultWorld("", sharedPool(t), cfg, faultdisk.Options{})
			w.cfg.FS = roomFS{w.cfg.FS, c.free}
			r := newRigIn(t, fastDir(t), func(cfg *engine.Config) { *cfg = w.cfg })
			for r.log.Segments()[0].Size < segmentBytes-1024 {
				r.appendSizes(900)
			}
			var got []int64
			for _, e := range w.disk.Log(faultdisk.Allocate) {
				got = append(got, e.Pos+e.Len)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("reservations end at %d, want %d", got, c.want)
			}
		})
	}
}
