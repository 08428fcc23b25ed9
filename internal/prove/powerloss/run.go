package powerloss

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// Run runs workloads as the options say, prints a table with a row for each kind
// in each way, and gives it. Images that fail are in the result; the error is
// about options (ErrNoRow among them), a host that does not work (ErrNoRing when it
// has no ring at all), or the writer. What was found until a host failed is
// printed and given as well. Where the filesystem has no commit journal its rows are
// left out; the result says so, or, when no row is left, the error, which matches
// engine.ErrNoJournal.
func Run(out io.Writer, o Options) (Result, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	r := run{Options: o}
	for _, s := range scenarios(o.Kinds) {
		if strings.Contains(s.String(), o.Only) {
			r.rows = append(r.rows, s)
		}
	}
	if len(r.rows) == 0 {
		return Result{}, fmt.Errorf("%w: none on %s has %q in its name", ErrNoRow, o.Host, o.Only)
	}
	if err := o.probe(); err != nil {
		return Result{}, err
	}
	if err := r.leaveOutJournal(); err != nil {
		return Result{}, err
	}
	for _, s := range r.rows {
		r.result.Rows = append(r.result.Rows, Row{Kind: s.kind, Mode: s.mode.String(), Roll: s.rolls(), Pages: s.pages(), Journal: s.journaled})
	}
	err := r.all()
	slices.SortFunc(r.result.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Seed, b.Seed))
	})
	return r.result, errors.Join(err, r.result.Print(out))
}

type run struct {
	Options
	rows []scenario

	mu     sync.Mutex
	result Result
	err    error // a host does not work
}

// leaveOutJournal drops the rows with a commit journal where there can be none.
func (r *run) leaveOutJournal() error {
	journaled := func(s scenario) bool { return s.journaled }
	if r.Host == Simulated || !slices.ContainsFunc(r.rows, journaled) {
		return nil
	}
	err := r.tryJournal()
	if !errors.Is(err, engine.ErrNoJournal) {
		return err
	}
	r.result.NoJournal = err
	if r.rows = slices.DeleteFunc(r.rows, journaled); len(r.rows) == 0 {
		return fmt.Errorf("%w that can be run on %s: %w", ErrNoRow, r.Host, err)
	}
	return nil
}

// job is one workload: a row and a seed.
type job struct {
	row  int
	seed uint64
}

// all runs every workload, unless a host does not work.
func (r *run) all() error {
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range r.Workers {
		workers.Go(func() {
			for j := range jobs {
				r.one(j)
			}
		})
	}
	for seed := range uint64(r.Seeds) {
		for row := range r.rows {
			if r.broken() == nil && !(r.EndAtFailure && r.failed()) {
				jobs <- job{row, r.FirstSeed + seed}
			}
		}
	}
	close(jobs)
	workers.Wait()
	return r.broken()
}

func (r *run) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result.Failed > 0
}

// one runs a workload and notes what came of it.
func (r *run) one(j job) {
	s := r.rows[j.row]
	counts, err := r.workload(s, j.seed)
	counts.Workloads = 1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Rows[j.row].add(counts)
	r.result.add(counts)
	switch failed := (*hostError)(nil); {
	case err == nil:
	case errors.As(err, &failed):
		r.err = cmp.Or(r.err, fmt.Errorf("%v: %w", s, err))
	default:
		r.result.Failed++
		if len(r.result.Failures) < r.FailuresKept {
			r.result.Failures = append(r.result.Failures, r.failure(s, j.seed, err))
		}
	}
}

func (r *run) failure(s scenario, seed uint64, err error) Failure {
	f := Failure{Row: s.String(), Seed: seed}
	if failed := (*imageError)(nil); errors.As(err, &failed) {
		f.ImageSeed = failed.seed
	}
	f.Text = fmt.Sprintf("%s on %s, FELIX_POWER_LOSS_SEED=%#x, go run ./internal/prove -seed %#x -hosts %s -images %d -only %q:\n%v",
		f.Row, r.Host, seed, seed, r.Host, r.Images, f.Row, err)
	return f
}

// workload runs one workload on a host of its own.
func (r *run) workload(s scenario, seed uint64) (Counts, error) {
	work, _ := s.kind.work()
	if r.Host == Simulated {
		bubble := r.Bubble
		if s.kind == Publishers {
			bubble = func(f func()) { f() }
		}
		var w *workload
		err := errors.New("the bubble did not run the workload to its end")
		bubble(func() {
			w = newWorkload(s, seed, r.Images, newSimulated(simdisk.QueueOptions{
				Mode: simdisk.Adversarial, Seed: seed, ShortPercent: 5, Sleep: s.kind != Publishers,
			}))
			err = work(w)
		})
		if w == nil {
			return Counts{}, err
		}
		return w.sum, err
	}
	return r.onReal(s, seed, work)
}

// onReal runs a workload on real files. The host that was crashed all the time
// has to have been followed by its model, or the images mean nothing.
func (r *run) onReal(s scenario, seed uint64, work func(*workload) error) (Counts, error) {
	base, err := os.MkdirTemp(r.Dir, "power-loss-")
	if err != nil {
		return Counts{}, &hostError{err}
	}
	h, err := r.newReal(base)
	if err != nil {
		return Counts{}, errors.Join(err, os.RemoveAll(base))
	}
	w := newWorkload(s, seed, r.Images, h)
	err = errors.Join(work(w), h.discard())
	if removed := os.RemoveAll(base); removed != nil {
		err = errors.Join(err, &hostError{removed})
	}
	return w.sum, err
}
