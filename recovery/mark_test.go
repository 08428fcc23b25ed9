package recovery

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"
)

// goldenMark is segment 3 synced through 8192 bytes.
const goldenMark = "464c534d000100000000000000000003" + "00000000000020004d15061b00000000"

func TestMarkHasTheGoldenBytes(t *testing.T) {
	want, err := hex.DecodeString(goldenMark)
	if err != nil {
		t.Fatal(err)
	}
	mark := Mark{Segment: 3, Synced: 8192}
	if got := mark.AppendTo([]byte("x")); !bytes.Equal(got[1:], want) {
		t.Errorf("encoded %x, want %x", got[1:], want)
	}
	if got, ok := DecodeMark(append(want, "more"...)); !ok || got != mark {
		t.Errorf("decoded %+v, %v", got, ok)
	}
}

func TestDamagedMarkCountsAsNone(t *testing.T) {
	whole := Mark{Segment: 3, Synced: 8192}.AppendTo(nil)
	for n := range whole {
		if _, ok := DecodeMark(whole[:n]); ok {
			t.Errorf("%d bytes were taken for a mark", n)
		}
	}
	for i := range markCovered + 4 {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x10
		if i == 6 || i == 7 {
			continue // reserved bytes are covered by the checksum as well
		}
		if _, ok := DecodeMark(bad); ok {
			t.Errorf("a mark with byte %d flipped was taken", i)
		}
	}
	if _, ok := DecodeMark((Mark{Synced: -1}).AppendTo(nil)); ok {
		t.Error("a length beyond what a file can have was taken")
	}
	if _, ok := DecodeMark(make([]byte, MarkBytes)); ok {
		t.Error("zeros were taken for a mark")
	}
}

func TestMarkAnswersWhatIsVouchedFor(t *testing.T) {
	for _, c := range []struct {
		name     string
		mark     *Mark
		id       uint64
		from     int64
		possible bool
		through  int64
	}{
		{"an earlier segment is vouched for whole", &Mark{3, 8192}, 2, 0, false, math.MaxInt64},
		{"the marked segment up to the mark", &Mark{3, 8192}, 3, 8192, true, 8192},
		{"a mark inside the header repairs from the first record", &Mark{3, 7}, 3, 32, true, 7},
		{"a later segment not at all", &Mark{3, 8192}, 4, 32, true, 0},
		{"no mark vouches for nothing and excuses nothing", nil, 3, 0, false, 0},
	} {
		e := evidence{c.mark}
		from, possible := e.unsyncedFrom(c.id)
		if from != c.from || possible != c.possible || e.syncedThrough(c.id) != c.through {
			t.Errorf("%s: got (%d, %v) and %d", c.name, from, possible, e.syncedThrough(c.id))
		}
	}
}
