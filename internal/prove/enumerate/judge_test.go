package enumerate

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// judgeCase is how the logs of these tests are opened.
var judgeCase = Case{Mode: engine.FsyncOnCommit, Roll: Inline, Point: -1, State: -1}

// closedLog is a disk with a log of some records, of an incarnation each.
func closedLog(t *testing.T, incarnations ...uint32) (*simdisk.Disk, []record) {
	t.Helper()
	disk := simdisk.New()
	disk.MakeDir(root)
	var records []record
	if err := with(judgeCase, Options{}, disk, func(log *engine.Log) error {
		for offset, n := range incarnations {
			r := record{n, payloadBytes}
			records = append(records, r)
			if _, err := log.Append(t.Context(), engine.Record{Payload: r.payload(uint64(offset))}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return disk, records
}

func TestALogIsJudgedByWhatMayBeFound(t *testing.T) {
	for _, c := range []struct {
		name string
		// expect is of a log that holds three records, of incarnations 0, 0 and 1.
		expect  func(records []record) expectation
		verdict Verdict
		says    string
	}{
		{"all that was written is whole", func(r []record) expectation {
			return expectation{{0, 0, 3, 3, r}}
		}, Whole, ""},
		{"without a record that nobody was promised it is short", func(r []record) expectation {
			return expectation{{0, 0, 2, 4, append(r, record{1, payloadBytes})}}
		}, Short, ""},
		{"without one that was promised it is lost", func(r []record) expectation {
			return expectation{{0, 0, 4, 4, append(r, record{1, payloadBytes})}}
		}, Lost, "[0, 3) was found, and it had to be one of [0 to 0, 4 to 4)"},
		{"with one that was never appended it is lost", func(r []record) expectation {
			return expectation{{0, 0, 1, 2, r[:2]}}
		}, Lost, "[0, 3) was found, and it had to be one of [0 to 0, 1 to 2)"},
		{"a base that nothing moved is lost", func(r []record) expectation {
			return expectation{{1, 2, 3, 3, r}}
		}, Lost, "[0, 3) was found, and it had to be one of [1 to 2, 3 to 3)"},
		{"a record of before a truncation is lost", func(r []record) expectation {
			return expectation{{0, 0, 2, 3, []record{{0, payloadBytes}, {1, payloadBytes}, {1, payloadBytes}}}}
		}, Lost, "at offset 1 is record 1 with 700 bytes, and not what was appended"},
		{"a record of another length is lost", func(r []record) expectation {
			return expectation{{0, 0, 2, 3, []record{r[0], r[1], {1, payloadBytes - 1}}}}
		}, Lost, "at offset 2 is record 2 with 700 bytes, and not what was appended"},
		{"one of two histories will do", func(r []record) expectation {
			return expectation{{2, 2, 2, 2, r[:2]}, {0, 0, 1, 3, r}}
		}, Whole, ""},
		{"neither of two histories is lost", func(r []record) expectation {
			return expectation{{2, 2, 2, 2, r[:2]}, {0, 0, 0, 1, r[:1]}}
		}, Lost, "one of [2 to 2, 2 to 2)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk, records := closedLog(t, 0, 0, 1)
			v, err := judge(judgeCase, Options{}, disk, c.expect(records))
			if v != c.verdict || (err == nil) != (c.says == "") {
				t.Fatalf("%v: %v", v, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

// flip turns all bits of one byte of a file.
func flip(disk *simdisk.Disk, name string, pos int64) (err error) {
	f, err := disk.OpenFile(filepath.Join(shardDir(), name), device.ReadWrite, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, pos); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = f.Perform(&device.Op{Kind: device.Write, File: f, Buf: b, Pos: pos})
	return err
}

func TestALogThatDoesNotOpenIsRefused(t *testing.T) {
	disk, records := closedLog(t, 0, 0, 0)
	if err := flip(disk, "00000000000000000000.log", 40); err != nil {
		t.Fatal(err)
	}
	v, err := judge(judgeCase, Options{}, disk, expectation{{0, 0, 0, 3, records}})
	if v != Refused || err == nil {
		t.Errorf("%v: %v", v, err)
	}
}

func TestExpectationsThatAllowTheSameHaveOneKey(t *testing.T) {
	records := []record{{0, 1}, {0, 2}, {1, 3}}
	base := history{1, 1, 2, 3, records}
	same := history{1, 1, 2, 3, []record{{9, 9}, {0, 2}, {1, 3}}} // below the base nothing is compared
	if (expectation{base}).key() != (expectation{same}).key() {
		t.Error("two keys for one expectation")
	}
	for _, other := range []expectation{
		{{0, 1, 2, 3, records}},
		{{1, 2, 2, 3, records}},
		{{1, 1, 3, 3, records}},
		{{1, 1, 2, 2, records}},
		{{1, 1, 2, 3, []record{{0, 1}, {0, 2}, {2, 3}}}},
		{{1, 1, 2, 3, []record{{0, 1}, {0, 2}, {1, 4}}}},
		{base, base},
	} {
		if other.key() == (expectation{base}).key() {
			t.Errorf("%v has the key of %v", other, base)
		}
	}
}

// While a truncation is under way either history may be found; once it returned,
// what was cut may not.
func TestATruncationUnderWayAllowsBothHistories(t *testing.T) {
	m := model{base: 2, acked: 5, promised: 4}
	m.grow(1, 1, 1, 1, 1)
	before := m.expect(4, 2, false)
	if len(before) != 1 || before[0].held != 4 || before[0].written != 5 {
		t.Fatalf("before: %+v", before)
	}
	m.cut, m.cutting = 3, true
	if e := m.expect(5, 2, true); len(e) != 1 || e[0].held != 3 || e[0].written != 5 || e[0].baseHigh != 2 {
		t.Errorf("cut to 3: %+v", e)
	}
	m.cut = 1
	if e := m.expect(5, 2, true); len(e) != 2 || e[0].held != 2 || e[1].baseLow != 1 || e[1].held != 1 || e[1].written != 1 {
		t.Errorf("cut to 1, below the base: %+v", e)
	}
	m.cutOff(3)
	m.grow(1)
	after := m.expect(3, 2, true)
	if len(after) != 1 || after[0].held != 3 || after[0].written != 4 || after[0].records[3].incarnation != 1 {
		t.Errorf("after: %+v", after)
	}
	if before[0].records[3].incarnation != 0 {
		t.Error("an expectation changed after it was taken")
	}
}

func TestRetentionUnderWayMayMoveTheBase(t *testing.T) {
	m := model{base: 1}
	m.grow(1, 1, 1)
	if e := m.expect(3, 2, true); e[0].baseLow != 1 || e[0].baseHigh != 1 {
		t.Errorf("without retention: %+v", e)
	}
	m.trimming = true
	if e := m.expect(3, 2, true); e[0].baseLow != 1 || e[0].baseHigh != 2 {
		t.Errorf("under way: %+v", e)
	}
}
