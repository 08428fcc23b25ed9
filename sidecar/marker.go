package sidecar

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"unicode/utf8"
)

const (
	// MarkersDir is the directory of markers in a root.
	MarkersDir = ".streams"

	markerFile    = "marker"
	markerVersion = 1
	checksumKey   = "crc32"
)

// Marker is what a broker knows about a stream's name: which incarnation of it
// the directories of this root belong to.
type Marker struct {
	// Incarnation is the one held here; 0 is a stream from before there were any.
	Incarnation uint64
	// DeletedThrough is the highest incarnation that was declared deleted.
	DeletedThrough uint64
	// Deleting says that a deletion of Incarnation is not finished.
	Deleting bool
}

// AppendTo appends the text of the file.
func (m Marker) AppendTo(dst []byte) []byte {
	start := len(dst)
	deleting := 0
	if m.Deleting {
		deleting = 1
	}
	dst = fmt.Appendf(dst, "version %d\nincarnation %d\ndeleting %d\ndeleted_through %d\n",
		markerVersion, m.Incarnation, deleting, m.DeletedThrough)
	return fmt.Appendf(dst, "%s %08x\n", checksumKey, crc32.ChecksumIEEE(dst[start:]))
}

// DecodeMarker reads a marker. The error is a *DecodeError; a stream with a marker
// that cannot be read is not served, since another incarnation's directories
// might be taken for its own.
//
// Keys that are not known are ignored. A line of the checksum, if there is one,
// is the last.
func DecodeMarker(b []byte) (Marker, error) {
	if len(b) > FileBytesMax {
		return Marker{}, &DecodeError{File: markerFile, Problem: ErrSize, Found: uint64(len(b)), Want: FileBytesMax}
	}
	p := markerParser{text: b}
	if err := p.checkVersion(); err != nil {
		return Marker{}, err
	}
	if b[len(b)-1] != '\n' {
		// A number that lost its last digits is a number.
		return Marker{}, &DecodeError{File: markerFile, Problem: ErrShort, Detail: "the last line has no end"}
	}
	if !utf8.Valid(b) {
		return Marker{}, contentError(markerFile, "it is not UTF-8")
	}
	values, err := p.lines()
	if err != nil {
		return Marker{}, err
	}
	return p.marker(values)
}

// markerParser reads the lines of one marker.
type markerParser struct{ text []byte }

// checkVersion looks at the first line alone.
func (p markerParser) checkVersion() error {
	const first = "version "
	if !bytes.HasPrefix(p.text, []byte(first)) {
		if bytes.HasPrefix([]byte(first), p.text) {
			return &DecodeError{File: markerFile, Problem: ErrShort, Detail: "it ends within its first word"}
		}
		return &DecodeError{File: markerFile, Problem: ErrMagic, Detail: "its first line gives no version"}
	}
	line, _, ended := bytes.Cut(p.text[len(first):], []byte("\n"))
	if !ended {
		return &DecodeError{File: markerFile, Problem: ErrShort, Detail: "the last line has no end"}
	}
	version, err := strconv.ParseUint(string(line), 10, 64)
	switch {
	case err != nil:
		return contentError(markerFile, "the version %q is no number", line)
	case version != markerVersion:
		return &DecodeError{File: markerFile, Problem: ErrVersion, Found: version, Want: markerVersion}
	}
	return nil
}

// lines gives the value of every key that is known, having verified the checksum.
func (p markerParser) lines() (map[string]string, error) {
	values := make(map[string]string)
	for rest := p.text; len(rest) > 0; {
		covered := len(p.text) - len(rest)
		line, behind, _ := bytes.Cut(rest, []byte("\n"))
		rest = behind
		key, value, found := bytes.Cut(line, []byte(" "))
		if !found {
			return nil, contentError(markerFile, "the line %q has no value", line)
		}
		switch key := string(key); key {
		case "version", "incarnation", "deleting", "deleted_through":
			if _, twice := values[key]; twice {
				return nil, contentError(markerFile, "two lines say %s", key)
			}
			values[key] = string(value)
		case checksumKey:
			if len(rest) > 0 {
				return nil, contentError(markerFile, "the line of the checksum is not the last")
			}
			if err := p.verify(covered, value); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// verify checks what stands before the line of the checksum.
func (p markerParser) verify(covered int, value []byte) error {
	stored, err := strconv.ParseUint(string(value), 16, 32)
	if err != nil {
		return contentError(markerFile, "the checksum %q is no number of eight hexadecimal digits", value)
	}
	if computed := uint64(crc32.ChecksumIEEE(p.text[:covered])); computed != stored {
		return &DecodeError{File: markerFile, Problem: ErrChecksum, Found: stored, Want: computed}
	}
	return nil
}

func (p markerParser) marker(values map[string]string) (Marker, error) {
	var m Marker
	var deleting uint64
	for key, to := range map[string]*uint64{"incarnation": &m.Incarnation, "deleting": &deleting, "deleted_through": &m.DeletedThrough} {
		value, found := values[key]
		if !found {
			return Marker{}, contentError(markerFile, "no line says %s", key)
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return Marker{}, contentError(markerFile, "%s %q is no number of 64 bits", key, value)
		}
		*to = n
	}
	if deleting > 1 {
		return Marker{}, contentError(markerFile, "deleting %d is neither 0 nor 1", deleting)
	}
	m.Deleting = deleting == 1
	return m, nil
}
