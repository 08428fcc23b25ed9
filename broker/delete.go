package broker

import (
	"context"
	"errors"
	"path/filepath"
)

// DeleteStream removes a stream and its records, durably, before it returns. Uses
// under way end with *DeletedError.
//
// Order: the definition says that it is being deleted, so that a crash after this
// ends with the deletion carried out at the next start; the stream's marker says it, so
// that no log of it is opened; the shards are renamed out of the way; the marker says
// that this incarnation is gone; the definition goes.
//
// After an error the stream either goes on as if nothing had happened, or answers
// *DeletedError, and deleting it again goes on.
func (b *Broker) DeleteStream(ctx context.Context, name StreamName) error {
	return b.orClosed(b.deleteStream(ctx, name))
}

func (b *Broker) deleteStream(ctx context.Context, name StreamName) error {
	ctx, changed, err := b.change(ctx)
	if err != nil {
		return err
	}
	defer changed()
	if b.draining.Load() {
		return &ClosedError{}
	}
	s, err := b.Stream(name)
	if err != nil {
		return err
	}
	d := s.def
	d.Deleting = true
	err = b.save(d)
	var unsure *DefinitionError
	if err != nil && !(errors.As(err, &unsure) && unsure.Replaced) {
		return err
	}
	// Also when the file says it and a power loss may yet undo that: the next start
	// would delete what is acknowledged from here on.
	s.def = d
	s.deleting.Store(true)
	s.end(&DeletedError{Stream: name})
	if err != nil {
		return errors.Join(err, closeAll(ctx, *s.shards.Load()))
	}
	if err := b.finishDeletion(ctx, d); err != nil {
		return err // the stream stays in the table
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.streams, name)
	b.mu.shards -= s.Shards()
	return nil
}

// finishDeletion removes the shards, then the definition. It can be done again from the
// beginning.
func (b *Broker) finishDeletion(ctx context.Context, d definition) error {
	if b.files == nil {
		return nil
	}
	if d.Durable {
		if err := b.deleteShards(ctx, d); err != nil {
			return err
		}
	}
	return b.files.remove(d.name())
}

// deleteShards removes the directories of a stream's incarnation, which counts as deleted
// when they are gone: no stream of the name opens one of them again.
func (b *Broker) deleteShards(ctx context.Context, d definition) error {
	if _, err := b.store.BeginDeletion(ctx, d.Tenant, d.Namespace, d.Stream); err != nil {
		return err
	}
	var errs []error
	for i := range max(d.Shards, b.cfg.ShardsMax) {
		// Beyond those defined there may be some of whoever had the directory before.
		if i < d.Shards || b.files.exists(filepath.Join(b.cfg.Root, d.key(i).DirName())) {
			errs = append(errs, b.store.DeleteLog(ctx, d.key(i)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return b.store.FinishDeletion(ctx, d.Tenant, d.Namespace, d.Stream)
}

func (f *files) exists(path string) bool {
	_, err := f.fs.Lstat(path)
	return err == nil
}
