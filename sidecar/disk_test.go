package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

const (
	dir  = "/data/shard"
	name = "epochs"
	perm = 0o640
)

// content is what a name stands for; nil is no file.
type content []byte

func filled(with byte, n int) content { return bytes.Repeat([]byte{with}, n) }

// changes are the contents that a file goes between: from and to no file, empty
// ones, from one sector to several pages and back.
func changes() map[string][2]content {
	return map[string][2]content{
		"a first file":           {nil, filled('n', 28)},
		"a first file of pages":  {nil, filled('n', 8204)},
		"a first, empty file":    {nil, content{}},
		"a file as long":         {filled('o', 28), filled('n', 28)},
		"a longer one":           {filled('o', 12), filled('n', 8204)},
		"a shorter one":          {filled('o', 8204), filled('n', 12)},
		"pages as many":          {filled('o', 8204), filled('n', 8204)},
		"an empty one":           {filled('o', 28), content{}},
		"one instead of nothing": {content{}, filled('n', 28)},
	}
}

// newDisk makes a disk that holds the old content, durably.
func newDisk(t testing.TB, old content) *simdisk.Disk {
	t.Helper()
	d := simdisk.New()
	d.MakeDir(dir)
	if old != nil {
		must(t, Replace(d, d.NewQueue(simdisk.QueueOptions{}), dir, name, old, perm, true))
	}
	return d
}

// is says which of the contents the file has.
func is(disk device.FS, old, replacement content) (string, error) {
	got, err := Read(disk, dir, name, 1<<20)
	same := func(c content) bool { return (got == nil) == (c == nil) && bytes.Equal(got, c) }
	switch {
	case err != nil:
		return "", err
	case same(replacement):
		return "new", nil
	case same(old):
		return "old", nil
	default:
		return "", fmt.Errorf("a mix of %d bytes: %.40q", len(got), got)
	}
}

// survivors counts what power losses at this moment leave of the file, and tells
// an error for each that is neither old nor new. Of every third image it goes on
// as a restart does: the next replacement has to succeed.
func survivors(d *simdisk.Disk, old, replacement content, seed uint64) (counts map[string]int, err error) {
	counts = make(map[string]int)
	n := 0
	look := func(image *simdisk.Disk) {
		which, problem := is(image, old, replacement)
		if problem != nil {
			err = errors.Join(err, problem)
			return
		}
		counts[which]++
		if n++; n%3 != 0 {
			return
		}
		next := filled('x', 100)
		err = errors.Join(err, Replace(image, image.NewQueue(simdisk.QueueOptions{}), dir, name, next, perm, true))
		if which, problem := is(image.Crash(simdisk.CrashOptions{Seed: seed}), next, next); problem != nil || which != "new" {
			err = errors.Join(err, fmt.Errorf("after the crash a replacement gave %q: %w", which, problem))
		}
	}
	for image := range d.States(simdisk.Bound{Grain: simdisk.TornPages, LengthStep: 512, StatesMax: 64, Seed: seed}).All() {
		look(image)
	}
	for _, o := range []simdisk.CrashOptions{
		{Kind: simdisk.ProcessDeath},
		{Writeback: simdisk.InOrder, Seed: seed},
		{Writeback: simdisk.InOrder, Seed: seed + 1},
		{Seed: seed},
	} {
		look(d.Crash(o))
	}
	return counts, err
}

// cutEverywhere runs change with the power cut before each of its operations, and
// once more when it has succeeded. It gives what those cuts left: during, and
// afterwards.
func cutEverywhere(d *simdisk.Disk, old, replacement content, seed uint64, change func() error) (during, after map[string]int, err error) {
	during = make(map[string]int)
	var problems []error
	moments := 0
	d.BeforeChange(func(c simdisk.Change) {
		moments++
		counts, err := survivors(d, old, replacement, seed+uint64(moments))
		if err != nil {
			problems = append(problems, fmt.Errorf("before %s %v: %w", c.What, c.Kind, err))
		}
		for which, n := range counts {
			during[which] += n
		}
	})
	err = change()
	d.BeforeChange(nil)
	if err != nil {
		return during, nil, err
	}
	after, err = survivors(d, old, replacement, seed)
	return during, after, errors.Join(append(problems, err)...)
}

// outcomes are the keys of a count, sorted.
func outcomes(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }

// omitting is a queue that says of some kinds that they were done, and does not
// do them.
type omitting struct {
	device.Queue
	kinds []device.Kind
}

func (q omitting) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if slices.Contains(q.kinds, op.Kind) {
			op.Prepare()
			op.Complete(0, nil)
			continue
		}
		q.Queue.Submit(op)
	}
}
