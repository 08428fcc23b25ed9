package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// StreamMarker is what a root says about a stream's name.
type StreamMarker struct {
	sidecar.Marker
	// Marked is false for a name without a marker: its directories, if there are
	// any, are of incarnation 0.
	Marked bool
}

// MarkerError says that a stream's marker cannot be read or changed. The stream is
// not served; others are.
type MarkerError struct {
	// Stream is tenant/namespace/stream.
	Stream string
	Err    error
}

// Error names the stream, the file and what to do.
func (e *MarkerError) Error() string {
	text := fmt.Sprintf("%s: the marker of its incarnation: %v", e.Stream, e.Err)
	var problem *sidecar.DecodeError
	if errors.As(e.Err, &problem) {
		text += "; bring the file back from a backup, since another incarnation's records might be taken for this one's"
	}
	return text
}

// Unwrap gives the cause.
func (e *MarkerError) Unwrap() error { return e.Err }

// IncarnationError says that a stream is not at the incarnation, or not in the
// state, that a call takes it to be in.
type IncarnationError struct {
	// Stream is tenant/namespace/stream.
	Stream string
	// Asked is the incarnation that the call is about.
	Asked uint64
	// Marker is what the root says.
	Marker sidecar.Marker
	// Reason says what does not fit.
	Reason string
}

// Error says what was asked for and what the marker says.
func (e *IncarnationError) Error() string {
	return fmt.Sprintf("%s: incarnation %d: %s (the marker: incarnation %d, deleted through %d, deleting %v)",
		e.Stream, e.Asked, e.Reason, e.Marker.Incarnation, e.Marker.DeletedThrough, e.Marker.Deleting)
}

// StreamIncarnation reads what the root says about a stream's name. A marker that
// does not decode is a *MarkerError.
func (s *Store) StreamIncarnation(ctx context.Context, tenant, namespace, stream string) (StreamMarker, error) {
	leave, err := s.enter(ctx, "read a stream's incarnation")
	if err != nil {
		return StreamMarker{}, err
	}
	defer leave()
	s.markers.Lock()
	defer s.markers.Unlock()
	return s.loadMarker(ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream})
}

// BeginStream gives the incarnation that a newly created stream gets: 0 for a name
// without a marker, which has never been deleted, else one above every incarnation
// that was held or declared deleted. It is durable before BeginStream returns: no
// later stream of the name gets it again, also when this one's creation fails.
//
// While a deletion of the name is unfinished it is an *IncarnationError.
func (s *Store) BeginStream(ctx context.Context, tenant, namespace, stream string) (uint64, error) {
	key := ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream}
	m, err := s.changeMarker(ctx, "begin a stream", key, func(m *StreamMarker) (bool, error) {
		if !m.Marked {
			return false, nil
		}
		highest := max(m.Incarnation, m.DeletedThrough)
		switch {
		case m.Deleting:
			return false, m.refuse(key, m.Incarnation, "its deletion is unfinished; finish it first")
		case highest == ^uint64(0):
			return false, m.refuse(key, highest, "no higher incarnation is left; use another name")
		}
		m.Incarnation = highest + 1
		return true, nil
	})
	return m.Incarnation, err
}

// ContinueStream is for a stream whose durable definition holds an incarnation: a
// marker that lags behind it, since it was put back from an older copy, is raised to
// it, durably. One that is ahead is an *IncarnationError. A name without a marker
// takes any incarnation, and gets none.
func (s *Store) ContinueStream(ctx context.Context, tenant, namespace, stream string, incarnation uint64) error {
	key := ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream}
	_, err := s.changeMarker(ctx, "continue a stream", key, func(m *StreamMarker) (bool, error) {
		if !m.Marked || m.Incarnation == incarnation {
			return false, nil
		}
		return true, m.raise(key, incarnation)
	})
	return err
}

// BeginDeletion notes that an incarnation is being deleted, durably, before any of
// its directories is. From here on its shards cannot be opened. Calling it again
// changes nothing. A marker that lags behind it, or is not there, is raised to it; one
// that is ahead is an *IncarnationError: the name is a later stream's by now.
func (s *Store) BeginDeletion(ctx context.Context, tenant, namespace, stream string, incarnation uint64) error {
	key := ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream}
	_, err := s.changeMarker(ctx, "begin a deletion", key, func(m *StreamMarker) (bool, error) {
		err := m.raise(key, incarnation)
		m.Deleting = true
		return true, err
	})
	return err
}

// raise brings a marker up to an incarnation. What an older one of the marker left is
// never opened again: its deletion, if it was under way, has no meaning any more.
func (m *StreamMarker) raise(key ShardKey, incarnation uint64) error {
	if m.Marked && m.Incarnation > incarnation {
		return m.refuse(key, incarnation, "the root holds a later one")
	}
	if m.Incarnation < incarnation {
		m.Incarnation, m.Deleting = incarnation, false
	}
	return nil
}

// FinishDeletion notes that the incarnation which was being deleted is gone, durably:
// it counts as deleted, and so does every lower one. While the root holds a directory
// of one of them, that is an *IncarnationError. Without a deletion under way it
// changes nothing.
func (s *Store) FinishDeletion(ctx context.Context, tenant, namespace, stream string) error {
	key := ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream}
	_, err := s.changeMarker(ctx, "finish a deletion", key, func(m *StreamMarker) (bool, error) {
		if !m.Deleting {
			return false, nil
		}
		key.Incarnation = m.Incarnation
		left, err := s.shardsThrough(key)
		if err != nil {
			return false, err
		}
		if len(left) > 0 {
			return false, m.refuse(key, m.Incarnation, fmt.Sprintf("%d of its shards are there, such as %s; delete them first", len(left), left[0].DirName()))
		}
		m.Deleting, m.DeletedThrough = false, max(m.DeletedThrough, m.Incarnation)
		return true, nil
	})
	return err
}

// changeMarker reads a marker, changes it, and makes that durable. What change
// reports as no change is not written.
func (s *Store) changeMarker(ctx context.Context, op string, key ShardKey, change func(*StreamMarker) (bool, error)) (StreamMarker, error) {
	leave, err := s.enter(ctx, op)
	if err != nil {
		return StreamMarker{}, err
	}
	defer leave()
	s.markers.Lock()
	defer s.markers.Unlock()
	m, err := s.loadMarker(key)
	if err != nil {
		return StreamMarker{}, err
	}
	changed, err := change(&m)
	if err != nil || !changed {
		return m, err
	}
	if err := recovery.MakeDirs(s.disk(), s.pathInRoot(sidecar.MarkersDir), s.cfg.DirMode); err != nil {
		return StreamMarker{}, s.markerFailed(key, err)
	}
	if err := s.saveMarker(key, m.Marker); err != nil {
		return StreamMarker{}, err
	}
	m.Marked = true
	return m, nil
}

// markers is what a store knows about .streams/. The lock is held across disk work,
// and never taken by an appender.
type markers struct {
	sync.Mutex
	// durable are markers of which this store knows that a power loss leaves them as
	// they read.
	durable map[string]bool
}

// loadMarker reads a marker and gives only what is durable: a crash must not bring
// back what a marker said before a stream of it was opened.
func (s *Store) loadMarker(key ShardKey) (StreamMarker, error) {
	name := key.markerName()
	m, err := sidecar.LoadMarker(s.fs, s.root, name)
	switch {
	case err != nil:
		return StreamMarker{}, s.markerFailed(key, err)
	case m == nil:
		return StreamMarker{}, nil
	}
	if !s.markers.durable[name] {
		if err := s.writeAgain(s.pathInRoot(sidecar.MarkersDir), name); err != nil {
			return StreamMarker{}, s.markerFailed(key, err)
		}
		s.markers.durable[name] = true
	}
	return StreamMarker{Marker: *m, Marked: true}, nil
}

// saveMarker replaces a marker, durably.
func (s *Store) saveMarker(key ShardKey, m sidecar.Marker) error {
	name := key.markerName()
	err := sidecar.Replace(s.fs, s.queue, s.pathInRoot(sidecar.MarkersDir), name, m.AppendTo(nil), s.cfg.FileMode, true)
	var change *sidecar.ChangeError
	switch {
	case err == nil:
		s.markers.durable[name] = true
		return nil
	case errors.As(err, &change) && !change.Unchanged():
		delete(s.markers.durable, name)
	}
	return s.markerFailed(key, err)
}

func (k ShardKey) markerName() string { return sidecar.MarkerName(k.Tenant, k.Namespace, k.Stream) }

func (s *Store) markerFailed(key ShardKey, err error) error {
	if device.ClassOf(err) == device.ClassFull {
		s.counters.full.Add(1)
		return &FullError{Label: key.streamLabel(), Cause: err}
	}
	return &MarkerError{Stream: key.streamLabel(), Err: err}
}

func (m *StreamMarker) refuse(key ShardKey, asked uint64, reason string) error {
	return &IncarnationError{Stream: key.streamLabel(), Asked: asked, Marker: m.Marker, Reason: reason}
}

// checkIncarnation refuses a key whose stream is at another incarnation, or being
// deleted: its directory would be another stream's. A name without a marker takes
// any key.
func (s *Store) checkIncarnation(key ShardKey) error {
	if s.single {
		return nil
	}
	s.markers.Lock()
	defer s.markers.Unlock()
	m, err := s.loadMarker(key)
	switch {
	case err != nil || !m.Marked:
		return err
	case m.Incarnation != key.Incarnation:
		return m.refuse(key, key.Incarnation, "the root holds another")
	case m.Deleting:
		return m.refuse(key, key.Incarnation, "it is being deleted")
	case key.Incarnation <= m.DeletedThrough && (key.Incarnation > 0 || m.DeletedThrough > 0):
		return m.refuse(key, key.Incarnation, "it was deleted")
	}
	return nil
}
