package engine

import (
	"context"
	"errors"
	"io/fs"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/sidecar"
)

// RestoringName is a file that stands in a root while a copy is put there: what is
// beside it is not whole, and OpenStore refuses it.
const RestoringName = ".restoring"

// refuseUnrestored refuses a root in which a restore did not finish.
func (s *Store) refuseUnrestored() error {
	path := s.pathInRoot(RestoringName)
	_, err := s.fs.Lstat(path)
	switch {
	case device.IsNotExist(err):
		return nil
	case err != nil:
		return &IdentityError{Path: path, Err: err}
	default:
		return &IdentityError{
			Path: path, Err: &fs.PathError{Op: "open", Path: path, Err: errUnrestored},
			Remedy: "empty the directory and run felixd restore again",
		}
	}
}

var errUnrestored = errors.New("a restore into this directory did not finish")

// RenewStorageID gives a root a new storage id, durably: its records are about to
// be, or are, others than those acknowledged under the old one. The root is locked
// meanwhile; one that is in use is a *device.LockedError.
func RenewStorageID(ctx context.Context, root string, cfg Config) (sidecar.StorageID, error) {
	if err := ctx.Err(); err != nil {
		return sidecar.StorageID{}, &LogError{Label: root, Op: "make a new storage id", Err: err}
	}
	s := newStore(root, cfg)
	if s.queue = cfg.Queue; s.queue == nil {
		pool := fallback.Open(fallback.Options{Workers: 1})
		defer pool.Close()
		s.queue = pool
	}
	lock, err := s.fs.Lock(root, false)
	if err != nil {
		return sidecar.StorageID{}, err
	}
	id, err := sidecar.NewStorageID(s.random())
	if err == nil {
		err = s.replaceInRoot(sidecar.StorageIDName, id.AppendTo(nil))
	}
	return id, errors.Join(err, lock.Close())
}
