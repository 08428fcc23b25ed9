package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/sidecar"
)

// Identity says which life of its data directory a store runs in.
type Identity struct {
	// ID is the data directory's storage id.
	ID sidecar.StorageID
	// Fresh says that this start made the id: acknowledged records of an earlier
	// life may be missing. Reason says why it was made.
	Fresh  bool
	Reason string
	// Previous is how the run before this one ended.
	Previous PreviousRun
}

// PreviousRun says how the run before this one ended, as far as run-state tells.
type PreviousRun uint8

// The ends of a run.
const (
	// RunNone: no earlier run left a word.
	RunNone PreviousRun = iota
	// RunStopped: every log's last flush succeeded.
	RunStopped
	// RunCrashed: the run ended otherwise, and had acknowledged nothing that was
	// not durable.
	RunCrashed
	// RunCrashedAhead: the run ended otherwise, and acknowledged before it flushed:
	// acknowledged records may be missing.
	RunCrashedAhead
	// RunUnreadable: run-state does not decode. The worst is taken for granted.
	RunUnreadable
)

// String gives the end's name.
func (p PreviousRun) String() string {
	names := [...]string{"none", "stopped cleanly", "crashed", "crashed while it acknowledged ahead of its flushes", "unreadable"}
	if int(p) >= len(names) {
		return fmt.Sprintf("previous_run(%d)", uint8(p))
	}
	return names[p]
}

// IdentityError says that the identity of a data directory cannot be read, or not
// be written for certain. No log was opened; what is on the disk is as it was, or
// as a later start expects it.
type IdentityError struct {
	// Path is the file's.
	Path string
	Err  error
	// Remedy says what to do; empty when the cause says it.
	Remedy string
}

// Error names the file and what to do.
func (e *IdentityError) Error() string {
	text := fmt.Sprintf("the identity of the data directory: %v", e.Err)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap gives the cause.
func (e *IdentityError) Unwrap() error { return e.Err }

// identity is what a store knows about its data directory's. Its lock is held
// across disk work, and taken by those who open logs, register or close the store;
// an appender never takes it.
type identity struct {
	sync.Mutex
	known Identity
	// acksBeforeSync is what run-state says of this run.
	acksBeforeSync bool
	// registered is the node's incarnation of the last registration.
	registered uint64
	node       sidecar.NodeID
	stop       *stopJob
}

// Identity is the data directory's. It is the zero value for a shard that was opened
// by itself.
func (s *Store) Identity() Identity {
	s.identity.Lock()
	defer s.identity.Unlock()
	return s.identity.known
}

// identify settles the data directory's identity, before any log is opened:
//
//  1. a storage id that is due is durable before anything else is;
//  2. run-state then says "running", under that id, before any record of this run
//     is acknowledged;
//  3. a registration is durable before anybody hears of it.
//
// A crash between the two leaves a run-state of another id. The next start keeps
// the id, which was made for the same reason, and writes it once more: nothing
// says that the crashed process got its name to the device.
func (s *Store) identify(ctx context.Context) error {
	if err := s.refuseUnrestored(); err != nil {
		return err
	}
	found, err := s.readIdentity()
	if err != nil {
		return err
	}
	s.identity.Lock()
	defer s.identity.Unlock()
	plan := decideIdentity(found, s.cfg.NodeIncarnation)
	for _, warning := range plan.warnings {
		s.logger.WarnContext(ctx, warning, "root", s.root)
	}
	id := plan.id
	if plan.make {
		if id, err = sidecar.NewStorageID(s.random()); err != nil {
			return &IdentityError{Path: s.root, Err: err}
		}
	}
	if plan.make || plan.again {
		if err := s.replaceInRoot(sidecar.StorageIDName, id.AppendTo(nil)); err != nil {
			return err
		}
	}
	acksBeforeSync := s.cfg.FsyncMode != FsyncOnCommit
	if err := s.writeRunState(sidecar.RunState{State: sidecar.Running, AcksBeforeSync: acksBeforeSync, ID: id}); err != nil {
		return err
	}
	if found.registration != nil {
		if err := s.identityFailed(s.pathInRoot(sidecar.RegistrationName), s.writeAgain(s.root, sidecar.RegistrationName)); err != nil {
			return err
		}
	}
	s.identity.known = Identity{ID: id, Fresh: plan.make, Reason: plan.reason, Previous: plan.previous}
	s.identity.acksBeforeSync = acksBeforeSync
	if found.registration != nil {
		s.identity.registered = found.registration.Incarnation
	}
	if plan.make && found.id != nil {
		s.logger.WarnContext(ctx, "the data directory has a new storage id: records that were acknowledged under the old one may be missing",
			"root", s.root, "reason", plan.reason, "old", *found.id, "new", id)
	}
	return nil
}

// readIdentity reads the files of the root that say whose it is.
func (s *Store) readIdentity() (rootFiles, error) {
	var found rootFiles
	var err error
	if found.id, err = sidecar.LoadStorageID(s.fs, s.root); err != nil {
		return found, unreadable(s.pathInRoot(sidecar.StorageIDName), err)
	}
	found.run, err = sidecar.LoadRunState(s.fs, s.root)
	if found.runProblem, err = undecoded(err); err != nil {
		return found, unreadable(s.pathInRoot(sidecar.RunStateName), err)
	}
	found.registration, err = sidecar.LoadRegistration(s.fs, s.root)
	if found.registrationProblem, err = undecoded(err); err != nil {
		return found, unreadable(s.pathInRoot(sidecar.RegistrationName), err)
	}
	return found, nil
}

// undecoded takes apart what a file says and what kept it from being read.
func undecoded(err error) (problem *sidecar.DecodeError, other error) {
	if errors.As(err, &problem) {
		return problem, nil
	}
	return nil, err
}

func unreadable(path string, err error) error {
	e := &IdentityError{Path: path, Err: err}
	var problem *sidecar.DecodeError
	switch {
	case !errors.As(err, &problem):
	case errors.Is(problem, sidecar.ErrVersion):
		e.Remedy = "start the build that wrote it"
	default:
		// Not from a copy: the id there vouches for what was acknowledged until the copy
		// was made, and a later start may have had another for a reason.
		e.Remedy = "move it away: the next start then makes a new id, " +
			"and whoever knows the directory by its old one takes nothing in it for granted"
	}
	return e
}

// writeRunState replaces run-state, durably.
func (s *Store) writeRunState(r sidecar.RunState) error {
	return s.replaceInRoot(sidecar.RunStateName, r.AppendTo(nil))
}

// replaceInRoot replaces a small file of the root, durably.
func (s *Store) replaceInRoot(name string, data []byte) error {
	return s.identityFailed(s.pathInRoot(name), sidecar.Replace(s.fs, s.queue, s.root, name, data, s.cfg.FileMode, true))
}

// writeAgain makes a small file durable as it reads. A process of before may have put
// it in its place and failed to get that to the device; then the kernel may count what
// it was to write as written, and another flush would have nothing to write. So the
// same bytes take their place once more, those that another build added included.
func (s *Store) writeAgain(dir, name string) error {
	b, err := sidecar.Read(s.fs, dir, name, sidecar.FileBytesMax)
	if b == nil || err != nil {
		return err
	}
	return sidecar.Replace(s.fs, s.queue, dir, name, b, s.cfg.FileMode, true)
}

// identityFailed words what kept a small file from being changed.
func (s *Store) identityFailed(path string, err error) error {
	switch device.ClassOf(err) {
	case device.ClassNone:
		return nil
	case device.ClassFull:
		s.counters.full.Add(1)
		return &FullError{Label: path, Cause: err}
	case device.ClassReadOnly:
		return &IdentityError{Path: path, Err: err, Remedy: "a store writes to its root when it opens; felixd log inspect and log dump only read"}
	default:
		return &IdentityError{Path: path, Err: err}
	}
}

// identityProblem says in which call the identity's files were at fault.
func (s *Store) identityProblem(op string, err error) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	return &LogError{Label: s.root, Op: op, Err: err}
}

func (s *Store) random() io.Reader {
	if s.cfg.Random != nil {
		return s.cfg.Random
	}
	return rand.Reader
}
