package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"felix.local/felix/segment"
)

// imprintBytes is how much of the end of a segment is compared.
const imprintBytes = 4096

// imprint is what tells whether a log still has the records that it had: the header
// and the end of one of its segments, at a length that it had once. A log that was
// cut back and written anew has others there.
type imprint struct {
	segmentLength
	head, end []byte
}

// imprints are those of segments in a directory, of which some may be gone.
func imprints(dir string, segments []segmentLength) ([]imprint, error) {
	var all []imprint
	for _, s := range segments {
		head, end, err := ends(filepath.Join(dir, s.name), s.bytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, imprint{s, head, end})
	}
	return all, nil
}

// ends reads the header and what stands before a position.
func ends(path string, bytes int64) (head, end []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // only read from
	head = make([]byte, min(bytes, segment.HeaderSize))
	end = make([]byte, min(bytes, imprintBytes))
	if _, err = f.ReadAt(head, 0); err == nil {
		_, err = f.ReadAt(end, bytes-int64(len(end)))
	}
	if err != nil {
		return nil, nil, errors.Join(errMoved, err) // shorter than it was
	}
	return head, end, nil
}

// unmoved says with errMoved that a log does not have the records any more that it
// had when the imprints were taken, but for those that retention took.
func unmoved(dir string, taken []imprint) error {
	kept := false
	for _, p := range taken {
		head, end, err := ends(filepath.Join(dir, p.name), p.bytes)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !kept:
			continue // the oldest ones
		case errors.Is(err, fs.ErrNotExist):
			return errMoved
		case err != nil:
			return err
		case !bytes.Equal(head, p.head) || !bytes.Equal(end, p.end):
			return errMoved
		}
		kept = true
	}
	if !kept && len(taken) > 0 {
		return errMoved
	}
	return nil
}
