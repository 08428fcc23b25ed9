package sidecar

import (
	"errors"
	"fmt"
	"strings"
)

// The classes of what is wrong with a file, for errors.Is.
var (
	// ErrShort: the file ends before it says it does, or before its kind is
	// known.
	ErrShort = errors.New("too short")
	// ErrMagic: it is a file of another kind.
	ErrMagic = errors.New("not a file of this kind")
	// ErrVersion: another build wrote it, in a layout that this one does not know.
	ErrVersion = errors.New("unknown version")
	// ErrSize: it is longer than a file of this kind may be.
	ErrSize = errors.New("too long")
	// ErrChecksum: its bytes changed since they were written.
	ErrChecksum = errors.New("wrong checksum")
	// ErrContent: its bytes are those that were written, and mean nothing.
	ErrContent = errors.New("impossible content")
)

// DecodeError says why a file was not understood.
type DecodeError struct {
	// File is the kind of file, by the name it has ("replica", …).
	File string
	// Path is where it lies, when known.
	Path string
	// Problem is one of the classes of this package.
	Problem error
	// Found and Want are the numbers that should have been equal: bytes for
	// ErrShort and ErrSize, else what stands in the field. Both are zero where
	// Detail says it all.
	Found, Want uint64
	// Detail says what is impossible about the content.
	Detail string
}

// Error says which file, what is wrong with it, and with what value.
func (e *DecodeError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path)
	} else {
		b.WriteString(e.File)
	}
	b.WriteString(": ")
	b.WriteString(e.Problem.Error())
	switch {
	case e.Detail != "":
		b.WriteString(": ")
		b.WriteString(e.Detail)
	case e.Problem == ErrShort || e.Problem == ErrSize:
		fmt.Fprintf(&b, ": %d bytes, expected %d", e.Found, e.Want)
	case e.Problem == ErrVersion:
		fmt.Fprintf(&b, ": %d, this build knows %d", e.Found, e.Want)
	default:
		fmt.Fprintf(&b, ": found %08x, expected %08x", e.Found, e.Want)
	}
	return b.String()
}

// Unwrap gives the class.
func (e *DecodeError) Unwrap() error { return e.Problem }

func contentError(file, format string, values ...any) error {
	return &DecodeError{File: file, Problem: ErrContent, Detail: fmt.Sprintf(format, values...)}
}
