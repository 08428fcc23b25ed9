package uring

import (
	"encoding/hex"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestEntriesHaveTheKernelsLayout compares every entry with bytes written down by
// hand from the kernel's struct io_uring_sqe (little-endian).
func TestEntriesHaveTheKernelsLayout(t *testing.T) {
	for _, row := range []struct {
		name  string
		entry sqe
		want  string
	}{
		{
			"write", writeEntry(0x1122, unsafe.Add(nil, 0x7fff_0000_1000), 0x2000, 0x1_0000_0003, false),
			"17000000" + "22110000" + "0300000001000000" + "001000 00ff7f0000" + "00200000" + "00000000",
		},
		{
			"durable write", writeEntry(5, unsafe.Add(nil, 0x1000), 1, 0, true),
			"17000000" + "05000000" + "0000000000000000" + "0010000000000000" + "01000000" + "02000000",
		},
		{"data flush", flushEntry(5, true), "03000000" + "05000000" + "0000000000000000" + "0000000000000000" + "00000000" + "01000000"},
		{"full flush", flushEntry(5, false), "03000000" + "05000000" + "0000000000000000" + "0000000000000000" + "00000000" + "00000000"},
		{
			"allocate", allocateEntry(5, 4096, 0x2_0000_0000),
			"11000000" + "05000000" + "0010000000000000" + "0000000002000000" + "01000000" + "00000000",
		},
		{"poll", pollEntry(5), "06000000" + "05000000" + "0000000000000000" + "0000000000000000" + "00000000" + "01000000"},
	} {
		e := row.entry
		e.userData = 0x0102030405060708
		want := unspaced(row.want) + "0807060504030201" + "000000000000000000000000" + "000000000000000000000000"
		got := hex.EncodeToString(unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e)))
		if got != want[:len(got)] || len(want) != 2*int(unsafe.Sizeof(e)) {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, want)
		}
	}
}

func unspaced(s string) string {
	var out []byte
	for i := range len(s) {
		if s[i] != ' ' {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func TestConstantsAgreeWithThoseOfTheSystem(t *testing.T) {
	if unix.RWF_DSYNC != 2 || unix.FALLOC_FL_KEEP_SIZE != 1 || unix.POLLIN != 1 {
		t.Error("the golden entries above are for other values")
	}
}
