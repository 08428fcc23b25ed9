package broker

import (
	"context"
	"errors"
)

// DeleteStream removes a stream and its records, durably, before it returns. Uses
// under way end with *DeletedError.
//
// Order: the definition says that it is being deleted, so that a crash after this
// ends with the deletion carried out at the next start; the shards are renamed out
// of the way, so that no stream of the same name opens them; the definition goes.
func (b *Broker) DeleteStream(ctx context.Context, name StreamName) error {
	if err := b.change(ctx); err != nil {
		return err
	}
	defer b.changed()
	if b.draining.Load() {
		return &ClosedError{}
	}
	s, err := b.Stream(name)
	if err != nil {
		return err
	}
	d := s.def
	d.Deleting = true
	if err := b.save(d); err != nil {
		return err
	}
	s.def = d
	s.end(&DeletedError{Stream: name})
	if err := b.finishDeletion(ctx, d); err != nil {
		return err // the stream stays in the table, ended; deleting it again goes on
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.streams, name)
	b.mu.shards -= s.Shards()
	return nil
}

// finishDeletion removes the shards, then the definition.
func (b *Broker) finishDeletion(ctx context.Context, d definition) error {
	if b.files == nil {
		return nil
	}
	if d.Durable {
		var errs []error
		for i := range d.Shards {
			errs = append(errs, b.store.DeleteLog(ctx, key(d.name(), i)))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return b.files.remove(d.name())
}
