package device_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"felix.local/felix/device"
)

// The kernel takes position -1 of a dsync write for the descriptor's own.
func TestANegativePositionIsRefused(t *testing.T) {
	f, err := device.OS().OpenFile(filepath.Join(t.TempDir(), "f"), device.CreateNew, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, op := range []*device.Op{
		{Kind: device.Write, Buf: []byte("abc"), Pos: -1},
		{Kind: device.WriteDsync, Buf: []byte("abc"), Pos: -1},
		{Kind: device.Allocate, Pos: -1, Len: 4096},
		{Kind: device.Allocate, Len: -1},
	} {
		if _, err := f.Perform(op); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v at %d, %d long: %v", op.Kind, op.Pos, op.Len, err)
		}
	}
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("the file holds %d bytes, %v", size, err)
	}
}
