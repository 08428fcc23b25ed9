package powerloss

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"felix.local/felix/engine"
)

// said is what a root may say of a stream's name. live says that a stream has the
// name, with the shards of the marker's incarnation, and bare that nothing was
// appended to them.
type said struct {
	engine.StreamMarker
	live, bare bool
}

// name is what was done to a stream's name. workload.mu guards it.
type name struct {
	now said
	// next is what a change under way makes of it.
	next *said
}

// incarnation is that of the shards to open.
func (n *name) incarnation() uint64 {
	if n == nil {
		return 0
	}
	return n.now.Incarnation
}

// nameExpectation is what an image's root may say; found is what it said, or says
// since the image was opened.
type nameExpectation struct {
	allowed []said
	found   said
}

// promise gives what must survive a power loss now.
func (n *name) promise() *nameExpectation {
	if n == nil {
		return nil
	}
	return &nameExpectation{allowed: []said{n.now}}
}

// complete adds what may be there, read after the crash.
func (n *name) complete(e *nameExpectation) {
	if n == nil {
		return
	}
	e.allowed = append(e.allowed, n.now)
	if n.next != nil {
		e.allowed = append(e.allowed, *n.next)
	}
}

// stream is how calls name the stream of all shards.
func stream() (tenant, namespace, name string) {
	k := shardKey(0)
	return k.Tenant, k.Namespace, k.Stream
}

// find gives what the root says of the name, which has to be allowed.
func (e *nameExpectation) find(ctx context.Context, store *engine.Store) (said, error) {
	tenant, namespace, name := stream()
	marker, err := store.StreamIncarnation(ctx, tenant, namespace, name)
	if err != nil {
		return said{}, err
	}
	at := slices.IndexFunc(e.allowed, func(s said) bool { return s.StreamMarker == marker })
	if at < 0 {
		return said{}, fmt.Errorf("the marker says %+v, and has to say one of %+v", marker, e.allowed)
	}
	return e.allowed[at], nil
}

// open opens the shards of what the root says of the name. Where no stream has it, a
// deletion is finished and a stream is created. Bare says that the shards have to be
// empty.
func (e *nameExpectation) open(ctx context.Context, store *engine.Store, shards int) (logs []*engine.Log, bare bool, err error) {
	found, err := e.find(ctx, store)
	if err == nil && !found.live {
		found, err = recreate(ctx, store, shards, found, func(step said) {
			step.bare = step.live
			e.allowed = append(e.allowed, step)
		})
		found.bare = true
	}
	if err == nil {
		err = formerRefused(ctx, store, found.Incarnation)
	}
	if err != nil {
		return nil, false, err
	}
	e.found = found
	logs, err = openShards(ctx, store, shards, found.Incarnation, engine.LogOptions{})
	return logs, found.bare, err
}

// served has the root say what it was acted upon for.
func (e *nameExpectation) served() {
	if e != nil {
		e.found.bare = false
		e.allowed = []said{e.found}
	}
}

// copied gives an expectation that changes by itself.
func (e *nameExpectation) copied() *nameExpectation {
	if e == nil {
		return nil
	}
	return &nameExpectation{allowed: slices.Clone(e.allowed)}
}

// formerRefused holds that the shards of an incarnation before this one are not to be
// had any more.
func formerRefused(ctx context.Context, store *engine.Store, incarnation uint64) error {
	if incarnation == 0 {
		return nil
	}
	_, err := openShards(ctx, store, 1, incarnation-1, engine.LogOptions{})
	if refused := (*engine.IncarnationError)(nil); !errors.As(err, &refused) {
		return fmt.Errorf("at incarnation %d a shard of the former one was opened: %w", incarnation, err)
	}
	return nil
}

// recreate finishes the deletion of a stream and creates one of its name. changing is
// told what the root says after each step, before the step is taken.
func recreate(ctx context.Context, store *engine.Store, shards int, from said, changing func(said)) (said, error) {
	tenant, namespace, name := stream()
	now := from
	if now.Deleting {
		for shard := range shards {
			key := shardKey(shard)
			key.Incarnation = now.Incarnation
			if err := store.DeleteLog(ctx, key); err != nil {
				return now, err
			}
		}
		now.Deleting, now.DeletedThrough = false, max(now.DeletedThrough, now.Incarnation)
		changing(now)
		if err := store.FinishDeletion(ctx, tenant, namespace, name); err != nil {
			return now, err
		}
	}
	now.Incarnation, now.live = max(now.Incarnation, now.DeletedThrough)+1, true
	changing(now)
	got, err := store.BeginStream(ctx, tenant, namespace, name)
	if err == nil && got != now.Incarnation {
		err = fmt.Errorf("a stream begins at incarnation %d, and %d was to come", got, now.Incarnation)
	}
	return now, err
}

// noted has what the root says change while do runs.
func (w *workload) noted(next said, do func() error) error {
	w.mu.Lock()
	w.name.next = &next
	w.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.name.now, w.name.next = next, nil
	return nil
}
