package simdisk_test

import (
	"errors"
	"fmt"
)

// verdicts counts what became of images.
type verdicts struct {
	images, midway, deaths, acked, poisoned int
	// whole images held everything appended, short ones less, within what is
	// allowed.
	whole, short, refused, lost int
	// cutAgain counts the images that lost power again, extended those that were
	// appended to and opened again.
	cutAgain, extended          int
	flushes, dirFlushes, dsyncs uint64
}

func (v *verdicts) String() string {
	return fmt.Sprintf("images=%d (midway=%d, after a process death=%d) acked=%d poisoned=%d whole=%d short=%d refused=%d lost=%d; "+
		"power cut again=%d, appended and reopened=%d; flushes=%d dsync=%d dir=%d",
		v.images, v.midway, v.deaths, v.acked, v.poisoned, v.whole, v.short, v.refused, v.lost, v.cutAgain, v.extended,
		v.flushes, v.dsyncs, v.dirFlushes)
}

func (v *verdicts) add(o *verdicts) {
	v.images += o.images
	v.midway += o.midway
	v.deaths += o.deaths
	v.acked += o.acked
	v.poisoned += o.poisoned
	v.whole += o.whole
	v.short += o.short
	v.refused += o.refused
	v.lost += o.lost
	v.cutAgain += o.cutAgain
	v.extended += o.extended
	v.flushes += o.flushes
	v.dirFlushes += o.dirFlushes
	v.dsyncs += o.dsyncs
}

var errLost = errors.New("records are lost")

// count notes the verdict on an image whose log ended at tail.
func (v *verdicts) count(i image, tail uint64, err error) {
	v.images++
	switch {
	case errors.Is(err, errLost):
		v.lost++
	case err != nil:
		v.refused++
	case tail == i.written:
		v.whole++
	default:
		v.short++
	}
}
