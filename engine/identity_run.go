package engine

import (
	"context"
	"errors"
	"path/filepath"

	"felix.local/felix/sidecar"
)

func (s *Store) pathInRoot(name string) string { return filepath.Join(s.root, name) }

// runAcksIn has run-state say that this run acknowledges before it flushes, if it
// does under mode: durably, before a log of that mode is opened.
func (s *Store) runAcksIn(mode FsyncMode) error {
	if mode == FsyncOnCommit || s.single {
		return nil
	}
	s.identity.Lock()
	defer s.identity.Unlock()
	if s.identity.acksBeforeSync {
		return nil
	}
	// After a failure the file may say either: the next log to open writes it again.
	err := s.writeRunState(sidecar.RunState{State: sidecar.Running, AcksBeforeSync: true, ID: s.identity.known.ID})
	s.identity.acksBeforeSync = err == nil
	return err
}

// stopJob closes the journal and writes the last word of a run, which may hang with the
// device while Close has a deadline.
type stopJob struct {
	done chan struct{}
	err  error
}

// noteStopped closes the journal and has run-state say "stopped cleanly", durably, if
// that is so: every log's last flush succeeded, none was poisoned, and the backend is
// there. No log is open any more. late says that ctx ended first; the writing goes on
// then, and the next call waits for it.
//
// What is not so stays "running" for the next start to find.
func (s *Store) noteStopped(ctx context.Context) (late bool, err error) {
	job := s.stopJob()
	select {
	case <-job.done:
		return false, job.err
	default:
	}
	select {
	case <-job.done:
		return false, job.err
	case <-ctx.Done():
		return true, &LogError{Label: s.root, Op: "close", Err: ctx.Err()}
	}
}

func (s *Store) stopJob() *stopJob {
	s.identity.Lock()
	defer s.identity.Unlock()
	if s.identity.stop == nil {
		job := &stopJob{done: make(chan struct{})}
		s.identity.stop = job
		clean := !s.unclean.Load() && !s.lost.Load()
		if !clean && !s.single {
			s.logger.Warn("the run ends uncleanly: a log was poisoned or could not be closed", "root", s.root)
		}
		last := sidecar.RunState{State: sidecar.Stopped, AcksBeforeSync: s.identity.acksBeforeSync, ID: s.identity.known.ID}
		go func() {
			defer close(job.done)
			job.err = s.journal.close()
			if clean && !s.single {
				job.err = errors.Join(job.err, s.identityProblem("close", s.writeRunState(last)))
			}
		}()
	}
	return s.identity.stop
}
