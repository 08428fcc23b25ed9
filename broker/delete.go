package broker

import (
	"context"
	"errors"
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

// deleteShards removes the directories of a stream's incarnation and of those before it,
// which count as deleted when they are gone: no stream of the name opens one of them
// again.
//
// A marker that is ahead of the definition is a later stream's: this one was deleted,
// and what undid the removal of its definition left that alone. Then the marker stays.
func (b *Broker) deleteShards(ctx context.Context, d definition) error {
	m, err := b.store.StreamIncarnation(ctx, d.Tenant, d.Namespace, d.Stream)
	if err != nil {
		return err
	}
	later := m.Incarnation > d.Incarnation
	if !later {
		if err := b.store.BeginDeletion(ctx, d.Tenant, d.Namespace, d.Stream, d.Incarnation); err != nil {
			return err
		}
	}
	if err := b.deleteDirs(ctx, d); err != nil || later {
		return err
	}
	return b.store.FinishDeletion(ctx, d.Tenant, d.Namespace, d.Stream)
}

// deleteDirs deletes the shards that are defined, and whatever others there are: of a
// growth that did not end, of a server that allowed more of them, or of whoever had the
// directory before.
func (b *Broker) deleteDirs(ctx context.Context, d definition) error {
	found, err := b.store.StreamShards(ctx, d.Tenant, d.Namespace, d.Stream, d.Incarnation)
	if err != nil {
		return err
	}
	var errs []error
	for i := range d.Shards {
		errs = append(errs, b.store.DeleteLog(ctx, d.key(i)))
	}
	for _, key := range found {
		if key.Incarnation != d.Incarnation || int64(key.Shard) >= int64(d.Shards) {
			errs = append(errs, b.store.DeleteLog(ctx, key))
		}
	}
	return errors.Join(errs...)
}

// carryOut finishes a deletion that a former process began. The definition is written
// once more before anything is deleted: that process may have failed to get it to the
// device, and a power loss would then bring back a stream without its shards.
func (b *Broker) carryOut(ctx context.Context, d definition) {
	err := b.save(d)
	if err == nil {
		err = b.finishDeletion(ctx, d)
	}
	if err != nil {
		b.registerUnfinished(d, err)
	}
}
