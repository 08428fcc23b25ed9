package sidecar

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/internal/golden"
)

// row is one line of testdata/verdicts.txt.
type row struct {
	line                 int
	file, edits, verdict string
}

func rows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("testdata/verdicts.txt")
	must(t, err)
	var all []row
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		// Blanks count in the text of an edit, so the edits are cut out as they stand.
		file, verdict := words[0], words[len(words)-1]
		edits := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), file), verdict)
		all = append(all, row{line: number, file: file, edits: strings.TrimSpace(edits), verdict: verdict})
	}
	return all
}

func TestAChangedFileGetsItsVerdict(t *testing.T) {
	covered := make(map[string]bool)
	for _, r := range rows(t) {
		t.Run(fmt.Sprintf("line %d, %s, %s", r.line, r.file, r.edits), func(t *testing.T) {
			original := golden.Bytes(t, r.file)
			for name, changed := range r.variants(t, original) {
				covered[r.file+" "+name] = true
				if got := verdictOn(t, r.file, original, changed); !slices.Contains(strings.Split(r.verdict, "/"), got) {
					t.Errorf("%s: %s, want %s", name, got, r.verdict)
				}
			}
		})
	}
	for name := range goldenValues() {
		if name == "marker-plain" {
			continue // it is there for the rules about lines
		}
		for n := range len(golden.Bytes(t, name)) {
			if !covered[fmt.Sprintf("%s cut %d", name, n)] {
				t.Errorf("no verdict on %s of %d bytes", name, n)
			}
			for bit := range 8 {
				if !covered[fmt.Sprintf("%s flip %d.%d", name, n, bit)] {
					t.Errorf("no verdict on %s with bit %d.%d changed", name, n, bit)
				}
			}
		}
	}
}

// verdictOn names what the changed file is taken for, and checks the error.
func verdictOn(t *testing.T, file string, original, changed []byte) string {
	t.Helper()
	c := codecFor(t, file)
	value, err := c.decode(changed)
	if err == nil {
		if cmp.Equal(value, mustDecode(t, c, original), values) {
			return "same"
		}
		return "other"
	}
	var undecoded *DecodeError
	if !errors.As(err, &undecoded) || !strings.HasPrefix(file, undecoded.File) || !strings.HasPrefix(err.Error(), undecoded.File+": ") {
		t.Errorf("%#v (%v) is no error of %s", err, err, file)
	}
	if empty, _ := c.decode(nil); !cmp.Equal(value, empty, values) {
		t.Errorf("an error, and the value %+v", value)
	}
	for class, is := range map[string]error{
		"short": ErrShort, "magic": ErrMagic, "version": ErrVersion, "size": ErrSize, "checksum": ErrChecksum, "content": ErrContent,
	} {
		if errors.Is(err, is) {
			return class
		}
	}
	return "an error without a class: " + err.Error()
}

// variants gives the changed files of a row, by what was done.
func (r row) variants(t *testing.T, original []byte) map[string][]byte {
	t.Helper()
	verb, span, _ := strings.Cut(r.edits, " ")
	changed := make(map[string][]byte)
	switch verb {
	case "cut":
		first, last := ends(span)
		for n := r.number(t, first, len(original)); n <= r.number(t, last, len(original)); n++ {
			changed[fmt.Sprintf("cut %d", n)] = original[:n]
		}
	case "flip":
		first, last := ends(span)
		for bit := r.bit(t, first, len(original), 0); bit <= r.bit(t, last, len(original), 7); bit++ {
			flipped := bytes.Clone(original)
			flipped[bit/8] ^= 1 << (bit % 8)
			changed[fmt.Sprintf("flip %d.%d", bit/8, bit%8)] = flipped
		}
	default:
		b := bytes.Clone(original)
		for edit := range strings.SplitSeq(r.edits, "+") {
			b = r.apply(t, b, strings.TrimSpace(edit))
		}
		changed[r.edits] = b
	}
	if len(changed) == 0 {
		t.Fatalf("%q changes nothing", r.edits)
	}
	return changed
}

// ends parses "N..M", or "N" for both.
func ends(span string) (first, last string) {
	first, last, isSpan := strings.Cut(span, "..")
	if !isSpan {
		last = first
	}
	return first, last
}

// bit parses "P" or "P.b" into a number of bits from the start; whole is the bit
// that stands for a byte without one.
func (r row) bit(t *testing.T, s string, size, whole int) int {
	t.Helper()
	byteAt, bitAt, exact := strings.Cut(s, ".")
	if exact {
		whole = r.number(t, bitAt, size)
	}
	return 8*r.number(t, byteAt, size) + whole
}

func (r row) number(t *testing.T, s string, size int) int {
	t.Helper()
	if s == "end" {
		return size - 1
	}
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}

// apply carries one edit out.
func (r row) apply(t *testing.T, b []byte, edit string) []byte {
	t.Helper()
	verb, rest, _ := strings.Cut(edit, " ")
	switch verb {
	case "add":
		more, err := hex.DecodeString(rest)
		must(t, err)
		return append(b, more...)
	case "set":
		at, digits, _ := strings.Cut(rest, " ")
		patch, err := hex.DecodeString(digits)
		must(t, err)
		copy(b[r.number(t, at, len(b)):], patch)
	case "text":
		at, quoted, _ := strings.Cut(rest, " ")
		text, err := strconv.Unquote(quoted)
		must(t, err)
		copy(b[r.number(t, at, len(b)):], text)
	case "seal":
		return seal(r.file, b)
	default:
		t.Fatalf("line %d: %q is no edit", r.line, edit)
	}
	return b
}

// seal makes the checksum of a file right, where there is room for one.
func seal(file string, b []byte) []byte {
	put, crc := binary.BigEndian.PutUint32, crc32.ChecksumIEEE
	switch {
	case strings.HasPrefix(file, "marker"):
		if at := bytes.LastIndex(b, []byte("crc32 ")); at >= 0 {
			return fmt.Appendf(b[:at:at], "crc32 %08x\n", crc(b[:at]))
		}
	case file == "epochs":
		if len(b) >= epochsHeaderBytes {
			end := epochsHeaderBytes + epochBytes*int(binary.BigEndian.Uint16(b[6:]))
			put(b[8:], crc(b[epochsHeaderBytes:max(epochsHeaderBytes, min(end, len(b)))]))
		}
	case len(b) >= crcBytes:
		at := len(b) - crcBytes
		if strings.HasPrefix(file, KeysIndexName) {
			crc = func(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }
		}
		put(b[at:], crc(b[:at]))
	}
	return b
}
