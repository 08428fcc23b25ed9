package corrupt

import (
	"io"
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
			w, err := newWorld(f, s, o)
			if err != nil {
				return r, err
			}
			w.run(&r)
		}
	}
	r.sort()
	return r, r.Print(out)
}

// trial is a damage to be judged.
type trial struct {
	file   *fileTruth
	damage Damage
}

// queueLength keeps the workers busy.
const queueLength = 256

// run judges every damage of one world.
func (w *world) run(r *Result) {
	trials, outcomes := make(chan trial, queueLength), make(chan outcome, queueLength)
	go func() {
		defer close(trials)
		for f, d := range w.damages() {
			trials <- trial{f, d}
		}
	}()
	var workers sync.WaitGroup
	for range w.o.Workers {
		workers.Go(func() {
			for t := range trials {
				outcomes <- w.judge(t.file, t.damage)
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
