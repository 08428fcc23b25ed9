package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"felix.local/felix/segment"
)

// tree is a checksum over the names and bytes of all files below a directory. Two trees
// with one digest hold the same.
type tree struct {
	sum   hash.Hash
	files int
	bytes int64
}

func newTree() *tree { return &tree{sum: sha256.New()} }

func (t *tree) digest() string { return hex.EncodeToString(t.sum.Sum(nil)) }

// add takes everything below dir, except what skip says, and puts each file's bytes
// through change first.
func (t *tree) add(dir string, skip func(name string) bool, change func(name string, b []byte) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if skip(name) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t.files++
		t.bytes += int64(len(b))
		if err := change(name, b); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		// The lengths in front keep names apart from the bytes around them.
		fmt.Fprintf(t.sum, "%d %s %d ", len(name), name, len(b))
		t.sum.Write(b)
		return nil
	})
}

func nothing(string) bool { return false }

func unchanged(string, []byte) error { return nil }

// What a segment holds of the clock: in its header the time it was created at, in every
// record the time it was published at, and behind both the checksums over them.
const (
	headerTimeAt, headerTimeEnd = 16, 28
	recordTimeAt, recordTimeEnd = 12, 28
)

// withoutTimes blanks the times in a segment file, and the checksums that cover them. A
// felixd stamps records with the wall clock, which no flag sets. The checksums are verified
// first, so nothing is hidden but the times themselves.
func withoutTimes(name string, b []byte) error {
	if _, isSegment := segment.ParseLogName(filepath.Base(name)); !isSegment {
		return nil
	}
	var at []int64
	found, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{
		Each: func(position int64, _ segment.Record) error {
			at = append(at, position)
			return nil
		},
	})
	if err != nil {
		return err
	}
	if found.Damage != nil {
		return fmt.Errorf("%d intact records, then damage at position %d", found.Records, found.ValidEnd)
	}
	clear(b[headerTimeAt:headerTimeEnd])
	for _, position := range at {
		clear(b[position+recordTimeAt : position+recordTimeEnd])
	}
	return nil
}
