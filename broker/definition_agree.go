package broker

import (
	"context"

	"felix.local/felix/engine"
)

// agree brings a definition and the marker of its stream to speak of one stream. They
// are two files, and either may be older than the other: after a crash between writing
// the two, when a former process could not flush one of them, or when one was put back
// from a copy. What comes of it is a stream that is whole or a deletion to carry out:
//
//   - The marker says that this incarnation is being deleted, or is deleted and nothing
//     of it is left: the deletion is carried out.
//   - The marker is ahead, and nothing is left of the definition's incarnation: the
//     definition is older than the stream, and is brought up to it.
//   - The marker lags behind: it is raised. A definition is durable only after it was.
//
// Where directories of an incarnation are left that the marker knows nothing of, it is
// left as it is. Its shards are refused then and say why, until somebody deletes the
// stream or puts the right files back.
func (b *Broker) agree(ctx context.Context, d definition) (definition, error) {
	if !d.Durable {
		return d, nil
	}
	m, err := b.store.StreamIncarnation(ctx, d.Tenant, d.Namespace, d.Stream)
	if err != nil || !m.Marked {
		return d, nil // whoever opens or deletes a shard is told
	}
	if d.Incarnation > m.Incarnation && !d.Deleting {
		return d, b.store.ContinueStream(ctx, d.Tenant, d.Namespace, d.Stream, d.Incarnation)
	}
	older := d.Incarnation < m.Incarnation
	if older {
		if d.Deleting && !m.Deleting {
			return d, nil // the later stream stays
		}
		if gone, err := b.gone(ctx, d); err != nil || !gone && !d.Deleting {
			return d, err
		}
		d.Incarnation = m.Incarnation
	}
	deleted, err := b.deletedBy(ctx, m, d)
	if err != nil {
		return d, err
	}
	if d.Deleting = d.Deleting || deleted; d.Deleting || !older {
		return d, nil
	}
	b.cfg.Logger.Warn("a stream's definition is older than the stream; it is brought up to it", "stream", d.name().String(), "incarnation", d.Incarnation)
	return d, b.save(d)
}

// deletedBy says that the marker has the definition's incarnation as deleted, and that
// nothing is left that says otherwise. The marker of an incarnation 0 that was deleted
// reads like that of one that was not.
func (b *Broker) deletedBy(ctx context.Context, m engine.StreamMarker, d definition) (bool, error) {
	switch {
	case m.Incarnation != d.Incarnation, m.Deleting:
		return m.Deleting && m.Incarnation == d.Incarnation, nil
	case m.Incarnation == 0 || m.Incarnation > m.DeletedThrough:
		return false, nil
	default:
		return b.gone(ctx, d)
	}
}

// gone says that there is no directory of the definition's incarnation, nor of one
// before it.
func (b *Broker) gone(ctx context.Context, d definition) (bool, error) {
	left, err := b.store.StreamShards(ctx, d.Tenant, d.Namespace, d.Stream, d.Incarnation)
	return len(left) == 0, err
}
