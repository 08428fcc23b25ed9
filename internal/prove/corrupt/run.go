package corrupt

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// Run damages logs as the options say, prints the table of verdicts and gives it.
// Lost images are in the result; the error is about options, or a log that could
// not be built, or the writer.
func Run(out io.Writer, o Options) (Result, error) {
	o = o.withDefaults()
	var r Result
	if err := o.validate(); err != nil {
		return r, err
	}
	for _, f := range o.Formats {
		for _, s := range o.States {
			if err := r.runLog(f, s, o); err != nil {
				return r, err
			}
		}
	}
	r.sort()
	return r, r.Print(out, o.Brief)
}

// runLog damages one log: a small one by bits and lengths and files, and a larger
// one by sectors.
func (r *Result) runLog(f Format, s State, o Options) error {
	small, large := o, o
	small.Kinds = slices.DeleteFunc(slices.Clone(o.Kinds), Kind.ofSectors)
	large.Kinds = slices.DeleteFunc(slices.Clone(o.Kinds), func(k Kind) bool { return !k.ofSectors() })
	large.SegmentBytes = o.SectorSegmentBytes
	for _, o := range []Options{small, large} {
		if len(o.Kinds) == 0 {
			continue
		}
		w, err := newWorld(f, s, o)
		if err != nil {
			return err
		}
		if o.Only != nil {
			if err := o.Only.Damage.check(w); err != nil {
				return fmt.Errorf("the case %v: %w", *o.Only, err)
			}
		}
		w.run(r)
	}
	return nil
}

// queueLength keeps the workers busy.
const queueLength = 256

// run judges every damage of one world.
func (w *world) run(r *Result) {
	damages, outcomes := make(chan Damage, queueLength), make(chan outcome, queueLength)
	go func() {
		defer close(damages)
		if w.o.Only != nil {
			damages <- w.o.Only.Damage
			return
		}
		for d := range w.damages() {
			damages <- d
		}
	}()
	var workers sync.WaitGroup
	for range w.o.Workers {
		workers.Go(func() {
			for d := range damages {
				outcomes <- w.judge(d)
			}
		})
	}
	go func() {
		workers.Wait()
		close(outcomes)
	}()
	for o := range outcomes {
		r.count(w, o)
	}
}
