package corrupt

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
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
	// Kinds of damage. Default: Flip and Cut, which alone are every bit and every
	// length; all there are is Kinds().
	Kinds []Kind
	// SegmentBytes is about the size of each of the three segments. Default 1500.
	SegmentBytes int
	// SectorSegmentBytes is the same where sectors and pages are damaged. Default
	// 9000, which is 18 sectors or three pages.
	SectorSegmentBytes int
	// Stride takes one damage of a log out of so many. Default 1: every one.
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
	// Brief prints the totals alone, without the table of formats and files.
	Brief bool
	// Only, when set, is the one image of the run, whatever Formats, States, Kinds,
	// SegmentBytes, Stride and VerifyAll are.
	Only *Case
	// Each, when set, is called with every image after its verdict, from many
	// goroutines. An error counts the image as lost.
	Each func(*Image) error
}

const (
	defaultSegmentBytes       = 1500
	defaultSectorSegmentBytes = 9000
	defaultFailuresKept       = 20
	// segmentBytesMin has room for one record of each kind that is written.
	segmentBytesMin = 1000
	// segmentBytesMax keeps the records of a log, which are held in memory and read
	// back for each image, to some thousands.
	segmentBytesMax = 1 << 20
)

func (o Options) withDefaults() Options {
	if c := o.Only; c != nil {
		o.Formats, o.States, o.Kinds, o.VerifyAll = []Format{c.Format}, []State{c.State}, []Kind{c.Damage.Kind}, c.VerifyAll
		o.SegmentBytes, o.SectorSegmentBytes = c.SegmentBytes, c.SegmentBytes
	}
	if len(o.Formats) == 0 {
		o.Formats = Formats()
	}
	if len(o.States) == 0 {
		o.States = States()
	}
	if len(o.Kinds) == 0 {
		o.Kinds = []Kind{Flip, Cut}
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SectorSegmentBytes == 0 {
		o.SectorSegmentBytes = defaultSectorSegmentBytes
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
	for _, bytes := range []int{o.SegmentBytes, o.SectorSegmentBytes} {
		if bytes < segmentBytesMin || bytes > segmentBytesMax {
			problems = append(problems, fmt.Errorf("segments of %d bytes, where %d to %d are allowed", bytes, segmentBytesMin, segmentBytesMax))
		}
	}
	problems = append(problems, unknown(o.Formats, Formats()), unknown(o.States, States()), unknown(o.Kinds, Kinds()))
	if o.Stride < 1 || o.Phase < 0 || o.Workers < 1 || o.FailuresKept < 0 {
		problems = append(problems, fmt.Errorf("stride %d, phase %d, workers %d, failures kept %d: one is too small",
			o.Stride, o.Phase, o.Workers, o.FailuresKept))
	}
	return errors.Join(problems...)
}

// unknown says which of some values are none of those there are.
func unknown[T ~string](values, known []T) error {
	for _, v := range values {
		if !slices.Contains(known, v) {
			return fmt.Errorf("%q is none of %q", v, known)
		}
	}
	return nil
}
