package device_test

import (
	"path/filepath"
	"testing"

	"felix.local/felix/device"
)

// BenchmarkDsyncWriteAfterALook overwrites a block durably after the file was looked at:
// not at all, at its length as fstat does it, with the times, at its names alone, and at what its path leads to.
func BenchmarkDsyncWriteAfterALook(b *testing.B) {
	for _, look := range []struct {
		name string
		at   func(device.File) error
	}{
		{"none", func(device.File) error { return nil }},
		{"fstat", func(f device.File) error { _, err := f.Size(); return err }},
		{"names", func(f device.File) error { _, err := f.Linked(); return err }},
		{"path", func(f device.File) error { _, err := f.Named(); return err }},
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

// BenchmarkLook is what it costs to ask whether a file has a name, and whether its path
// leads to it.
func BenchmarkLook(b *testing.B) {
	f, err := device.OS().OpenFile(filepath.Join(b.TempDir(), "f"), device.CreateNew, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for name, look := range map[string]func() (bool, error){"linked": f.Linked, "named": f.Named} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found, err := look(); err != nil || !found {
					b.Fatal(found, err)
				}
			}
		})
	}
}
