package device_test

import (
	"path/filepath"
	"testing"

	"felix.local/felix/device"
)

// BenchmarkDsyncWriteAfterALook overwrites a block durably after the file was looked at:
// not at all, at its length as fstat does it, with the times, and at its names alone.
func BenchmarkDsyncWriteAfterALook(b *testing.B) {
	for _, look := range []struct {
		name string
		at   func(device.File) error
	}{
		{"none", func(device.File) error { return nil }},
		{"fstat", func(f device.File) error { _, err := f.Size(); return err }},
		{"names", func(f device.File) error { _, err := f.Linked(); return err }},
		{"takes writes", device.File.TakesWrites},
	} {
		b.Run(look.name, func(b *testing.B) {
			f, err := device.OS().OpenFile(filepath.Join(b.TempDir(), "f"), device.CreateNew, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			op := &device.Op{Kind: device.WriteDsync, File: f, Buf: make([]byte, 4096)}
			for b.Loop() {
				if _, err := f.Perform(op); err != nil {
					b.Fatal(err)
				}
				if err := look.at(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
