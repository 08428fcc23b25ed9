package corrupt

import (
	"errors"
	"fmt"
	"runtime"
)

// Format is what the segments of a log look like.
type Format string

// The formats.
const (
	// V2 holds plain records, in segments of version 2.
	V2 Format = "v2"
	// V3 holds plain records and the batches of an idempotent producer.
	V3 Format = "v3"
	// V4 holds the same and the starts of generations.
	V4 Format = "v4"
	// Mixed is one segment of each version.
	Mixed Format = "mixed"
)

// Formats are all formats.
func Formats() []Format { return []Format{V2, V3, V4, Mixed} }

// State is how a log came to its end before it was damaged.
type State string

// The states.
const (
	// Closed was closed cleanly: the mark vouches for everything.
	Closed State = "closed"
	// Killed ended without being closed: the mark vouches for the first half of
	// the newest segment and for all before it.
	Killed State = "killed"
	// Rolling ended while a background roll had its seal still to do: the mark
	// vouches for the first half of the segment before the newest.
	Rolling State = "rolling"
	// Unmarked was closed cleanly and has no mark.
	Unmarked State = "unmarked"
)

// States are all states.
func States() []State { return []State{Closed, Killed, Rolling, Unmarked} }

// Options choose the images of a run.
type Options struct {
	// Formats and States of the logs, each with each. Default: all.
	Formats []Format
	States  []State
	// SegmentBytes is about the size of each of the three segments. Default 1500.
	SegmentBytes int
	// Stride takes one damage out of so many. Default 1: every bit of every
	// file, and every length.
	Stride int
	// Phase is where a stride begins: runs with the same stride and another
	// phase look at other damages.
	Phase int
	// VerifyAll opens with every segment read whole.
	VerifyAll bool
	// Workers is how many images are looked at together. Default: as many as
	// there are processors.
	Workers int
	// FailuresKept bounds the failures in the result. Default 20.
	FailuresKept int
	// Each, when set, is called with every image after its verdict, from many
	// goroutines. An error counts the image as lost.
	Each func(*Image) error
}

const (
	defaultSegmentBytes = 1500
	defaultFailuresKept = 20
	// segmentBytesMin has room for one record of each kind that is written.
	segmentBytesMin = 1000
)

func (o Options) withDefaults() Options {
	if len(o.Formats) == 0 {
		o.Formats = Formats()
	}
	if len(o.States) == 0 {
		o.States = States()
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.Stride == 0 {
		o.Stride = 1
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.FailuresKept == 0 {
		o.FailuresKept = defaultFailuresKept
	}
	return o
}

// validate lists everything that is wrong with the options.
func (o Options) validate() error {
	var problems []error
	if o.SegmentBytes < segmentBytesMin {
		problems = append(problems, fmt.Errorf("segments of %d bytes are too small, %d is the least", o.SegmentBytes, segmentBytesMin))
	}
	if o.Stride < 1 || o.Phase < 0 || o.Workers < 1 || o.FailuresKept < 0 {
		problems = append(problems, fmt.Errorf("stride %d, phase %d, workers %d, failures kept %d: one is too small",
			o.Stride, o.Phase, o.Workers, o.FailuresKept))
	}
	return errors.Join(problems...)
}
