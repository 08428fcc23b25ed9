package corrupt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// TestMain lets the heap grow: each open takes a buffer that is garbage at once.
func TestMain(m *testing.M) {
	debug.SetGCPercent(600)
	os.Exit(m.Run())
}

// testSegmentBytes keeps every bit of a log within a few seconds.
const testSegmentBytes = 1000

// run fails for every lost image, and logs the table.
func run(t *testing.T, o Options) Result {
	t.Helper()
	if o.SegmentBytes == 0 {
		o.SegmentBytes = testSegmentBytes
	}
	var table bytes.Buffer
	r, err := Run(&table, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
	for _, failure := range r.Failures {
		t.Error(failure)
	}
	if r.Lost > 0 {
		t.Errorf("%d of %d images lost", r.Lost, r.Images)
	}
	return r
}

func flip(file string, position int64, bit int) Damage {
	return Damage{Kind: Flip, File: file, Position: position, Bit: bit}
}

func long() bool { return os.Getenv("FELIX_LONG_TESTS") == "1" }

func TestEveryBitAndEveryLengthOfAClosedLogHasItsVerdict(t *testing.T) {
	r := run(t, Options{Formats: []Format{V3}, States: []State{Closed}})
	for _, v := range []Verdict{Whole, RefusedAtOpen, RefusedAtRead, CutBelowMark, EndsBelowMark} {
		if r.Of(v).Images == 0 {
			t.Errorf("no image was %v", v)
		}
	}
	for _, v := range []Verdict{CutUnfinished, CutPastMark, CutZeros, CutRetired, DroppedBlank, EndsUnvouched} {
		if n := r.Of(v).Images; n > 0 {
			t.Errorf("%d images of a log whose mark is current were %v", n, v)
		}
	}
}

func TestDamageOfEveryVersionAndStateHasItsVerdict(t *testing.T) {
	bits, moved := 53, 41
	if long() {
		bits, moved = 1, 1
	}
	r := run(t, Options{Stride: bits, SegmentBytes: defaultSegmentBytes})
	r.Add(run(t, Options{Kinds: []Kind{ZeroSector, ZeroPage, ZeroEnd, RemoveFile, CopyFile, SwapFiles}, Brief: true}))
	r.Add(run(t, Options{Kinds: []Kind{CopySector, SwapSectors}, Stride: moved, Brief: true}))
	for v := Whole; v < verdictCount; v++ {
		if r.Of(v).Images == 0 {
			t.Errorf("no image was %v", v)
		}
	}
	for _, v := range []Verdict{CutPastMark, CutRetired} {
		if c := r.Of(v); c.Dropped == 0 || c.SideCopies < c.Images || c.BytesCut == 0 {
			t.Errorf("%v: %+v: no cut took intact records along, or one has no side copy", v, c)
		}
	}
	for _, k := range Kinds() {
		if !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Kind == k }) {
			t.Errorf("no image was damaged by %s", k)
		}
	}
}

func TestNoDamageIsLeftForReadersWhenEverythingIsVerifiedAtOpen(t *testing.T) {
	r := run(t, Options{
		Formats: []Format{V3, Mixed}, States: []State{Closed, Killed}, Kinds: Kinds(), Stride: 29, VerifyAll: true, Brief: true,
	})
	if n := r.Of(RefusedAtRead).Images; n > 0 {
		t.Errorf("%d images were refused only when they were read", n)
	}
}

func TestAFileThatIsMissingIsNoticedUnlessTruncationOrRetentionLeavesTheSame(t *testing.T) {
	r := run(t, Options{Formats: []Format{V4}, Kinds: []Kind{RemoveFile}})
	for _, row := range r.Rows {
		want := Whole
		switch row.File {
		case "segment 1":
			want = StartsLater
		case "segment 2":
			want = RefusedAtOpen
		case "segment 3":
			want = EndsUnvouched
			if row.State == Closed || row.State == Killed {
				want = EndsBelowMark
			}
		}
		if row.Verdict != want || row.Images != 1 {
			t.Errorf("%s log without %s: %v, %d images", row.State, row.File, row.Verdict, row.Images)
		}
	}
}

func TestARunIsDecidedByItsOptions(t *testing.T) {
	o := Options{Formats: []Format{V4}, States: []State{Killed}, Stride: 211, Phase: 5}
	a, b := run(t, o), run(t, o)
	if !slices.Equal(a.Rows, b.Rows) {
		t.Errorf("two runs gave\n%+v\n%+v", a.Rows, b.Rows)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	_, err := Run(os.Stdout, Options{
		SegmentBytes: 10, SectorSegmentBytes: 1 << 30, Stride: -1, Formats: []Format{"v9"}, Kinds: []Kind{Flip, "rust"},
	})
	for _, part := range []string{"segments of 10 bytes", "segments of 1073741824 bytes", "stride -1", `"v9" is none of`, `"rust" is none of`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: it does not say %q", err, part)
		}
	}
}

func TestALookerThatFailsCountsAsLost(t *testing.T) {
	var looked atomic.Int64
	r, err := Run(new(bytes.Buffer), Options{
		Formats: []Format{V2}, States: []State{Closed}, Stride: 997, FailuresKept: 2,
		Each: func(i *Image) error {
			looked.Add(1)
			all, intact := i.Records()
			if len(all) != len(intact) || len(all) < 30 {
				t.Errorf("%v has %d records", i, len(all))
			}
			return errors.New("not what was wanted")
		},
	})
	if err != nil || r.Lost != r.Images || r.Lost == 0 || int64(r.Images) != looked.Load() || len(r.Failures) != 2 {
		t.Errorf("%+v, %d looked at, %v", r, looked.Load(), err)
	}
}

// TestWhatABrokenRecoveryWouldDoIsNoticed does more harm than the oracle knows
// of, which is what a product that loses records looks like from here.
func TestWhatABrokenRecoveryWouldDoIsNoticed(t *testing.T) {
	newest := func(w *world) segmentTruth { return w.logs[len(w.logs)-1] }
	for _, c := range []struct {
		name     string
		state    State
		damage   func(w *world) Damage
		sabotage func(w *world, disk *simdisk.Disk) error
		says     string
	}{
		{
			name: "the last record is gone", state: Killed,
			damage: func(*world) Damage { return flip(recovery.MarkName, 31, 0) },
			sabotage: func(w *world, disk *simdisk.Disk) error {
				s := newest(w)
				return Damage{Kind: Cut, File: segment.LogName(s.id), Position: s.starts[len(s.records)-1]}.apply(disk)
			},
			says: "without any right to",
		},
		{
			name: "damage below the mark is cut, because the mark is believed to be lower", state: Closed,
			damage: func(w *world) Damage {
				return flip(segment.LogName(newest(w).id), newest(w).starts[len(newest(w).records)-2]+3, 0)
			},
			sabotage: func(w *world, disk *simdisk.Disk) error {
				mark := recovery.Mark{Segment: newest(w).id, Synced: newest(w).starts[2]}
				return overwrite(disk, filepath.Join(dir, recovery.MarkName), 0, mark.AppendTo(nil))
			},
			says: "without any right to",
		},
		{
			name: "zeros below the mark are cut, because the mark is not looked at", state: Closed,
			damage: func(w *world) Damage {
				return Damage{Kind: ZeroEnd, File: segment.LogName(newest(w).id), Position: sectorBytes}
			},
			sabotage: func(_ *world, disk *simdisk.Disk) error { return disk.Remove(filepath.Join(dir, recovery.MarkName)) },
			says:     "without any right to",
		},
		{
			name: "more is cut than has to be", state: Rolling,
			damage: func(w *world) Damage {
				return flip(segment.LogName(newest(w).id), newest(w).size()-1, 4)
			},
			sabotage: func(w *world, disk *simdisk.Disk) error {
				s := newest(w)
				return flip(segment.LogName(s.id), s.starts[len(s.records)-2]+1, 4).apply(disk)
			},
			says: "were to be kept",
		},
		{
			name: "a record differs and its checksum agrees", state: Closed,
			damage: func(w *world) Damage { return flip(recovery.MarkName, 31, 0) },
			sabotage: func(w *world, disk *simdisk.Disk) error {
				s := w.logs[1]
				r := s.records[0]
				b := make([]byte, segment.EncodedSize(r.Mark, len(r.Payload)))
				segment.EncodeRecord(b, r.Offset, r.TimestampMicros+1, r.Mark, r.Payload)
				return overwrite(disk, filepath.Join(dir, segment.LogName(s.id)), s.starts[0], b)
			},
			says: "was read as",
		},
		{
			name: "a refusal blames another segment", state: Closed,
			damage: func(w *world) Damage { return flip(segment.LogName(w.logs[1].id), 2, 0) },
			sabotage: func(w *world, disk *simdisk.Disk) error {
				return disk.Remove(filepath.Join(dir, segment.LogName(w.logs[1].id)))
			},
			says: "the refusal names segment",
		},
		{
			name: "a log with a hole is opened", state: Killed,
			damage: func(w *world) Damage { return Damage{Kind: RemoveFile, File: segment.LogName(w.logs[1].id)} },
			sabotage: func(w *world, disk *simdisk.Disk) error {
				// The newest segment begins where the first ends, with the records of
				// the one that is missing in none.
				s := newest(w)
				h := segment.Header{Version: s.version, BaseOffset: w.records[w.logs[1].first].Offset}
				return replace(disk, filepath.Join(dir, segment.LogName(s.id)), h.AppendTo(nil))
			},
			says: "without any right to",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := newWorld(V3, c.state, Options{SegmentBytes: testSegmentBytes, Stride: 1}.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			d := c.damage(w)
			if o := w.judge(d); o.verdict == Lost {
				t.Fatalf("lost without any sabotage: %v", o.failure)
			}
			w.sabotage = func(disk *simdisk.Disk) error { return c.sabotage(w, disk) }
			o := w.judge(d)
			if o.verdict != Lost || !strings.Contains(fmt.Sprint(o.failure), c.says) {
				t.Errorf("%v: %v", o.verdict, o.failure)
			}
		})
	}
}

func TestAnImageIsACopy(t *testing.T) {
	w, err := newWorld(Mixed, Closed, Options{SegmentBytes: testSegmentBytes}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	before := w.disk.Digest()
	name := segment.LogName(w.logs[1].id)
	i := &Image{Damage: flip(name, 40, 3), world: w}
	files, err := i.Files()
	if err != nil || w.disk.Digest() != before {
		t.Fatalf("%v, or the undamaged log changed", err)
	}
	want := bytes.Clone(w.logs[1].content)
	want[40] ^= 8
	if !bytes.Equal(files[name], want) || len(files) != len(w.files) {
		t.Errorf("%d files, or not the damage that was asked for", len(files))
	}
	var _ device.FS = w.disk
	_, intact := i.Records()
	if n := slices.Index(intact, false); n != w.logs[1].first || slices.Contains(intact[n+1:], false) {
		t.Errorf("the records harmed are %v", intact)
	}
}
