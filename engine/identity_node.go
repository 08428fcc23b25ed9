package engine

import (
	"context"
	"errors"
	"fmt"

	"felix.local/felix/sidecar"
)

// RegistrationError refuses a registration that is older than the one the directory
// holds.
type RegistrationError struct {
	Root string
	// Held and Offered are incarnations of the node.
	Held, Offered uint64
}

// Error says both incarnations and what that means.
func (e *RegistrationError) Error() string {
	return fmt.Sprintf("%s: the directory holds incarnation %d of this node and the control plane gave %d: "+
		"the control plane went back in time, or two nodes use one id", e.Root, e.Held, e.Offered)
}

// Registered is the node's incarnation of the last registration; 0 is none.
func (s *Store) Registered() uint64 {
	s.identity.Lock()
	defer s.identity.Unlock()
	return s.identity.registered
}

// Register keeps the incarnation that the control plane gave the node, durably
// before it returns. One that is held already is no change; a lower one is a
// *RegistrationError.
//
// What the control plane held before, a cluster member asks for before it opens the
// store, and gives in Config.NodeIncarnation.
func (s *Store) Register(ctx context.Context, incarnation uint64) error {
	leave, err := s.enter(ctx, "register")
	if err != nil {
		return err
	}
	defer leave()
	s.identity.Lock()
	defer s.identity.Unlock()
	switch held := s.identity.registered; {
	case incarnation < held:
		return &RegistrationError{Root: s.root, Held: held, Offered: incarnation}
	case incarnation == held:
		return nil
	}
	// A file that cannot be read counts as none, as it does at the start.
	if err := s.replaceInRoot(sidecar.RegistrationName, sidecar.Registration{Incarnation: incarnation}.AppendTo(nil)); err != nil {
		return err
	}
	s.identity.registered = incarnation
	return nil
}

// NodeID is the id that the keys of offloaded segments start with, made and durable
// at its first use. A file that holds no usable id is an *IdentityError: with
// another id, what was offloaded under the old one would not be found.
func (s *Store) NodeID(ctx context.Context) (sidecar.NodeID, error) {
	leave, err := s.enter(ctx, "read node-id")
	if err != nil {
		return "", err
	}
	defer leave()
	s.identity.Lock()
	defer s.identity.Unlock()
	if s.identity.node != "" {
		return s.identity.node, nil
	}
	path := s.pathInRoot(sidecar.NodeIDName)
	id, err := sidecar.LoadNodeID(s.fs, s.root)
	var problem *sidecar.DecodeError
	if errors.As(err, &problem) {
		return "", &IdentityError{Path: path, Err: err, Remedy: "write the id into it that the keys of offloaded segments begin with"}
	}
	if err == nil && id == "" {
		id, err = sidecar.NewNodeID(s.random())
	}
	if err != nil {
		return "", &IdentityError{Path: path, Err: err}
	}
	// Written also when it was there: the process that made it may have been killed
	// before its name was durable.
	if err := s.replaceInRoot(sidecar.NodeIDName, id.AppendTo(nil)); err != nil {
		return "", err
	}
	s.identity.node = id
	return id, nil
}

// enter is for work of the store itself; Close waits until leave is called. A shard
// that was opened by itself has no root to work on.
func (s *Store) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, &LogError{Label: s.root, Op: op, Err: err}
	}
	if s.single {
		return nil, &UnsupportedError{Label: s.root, Reason: "a shard that was opened by itself has no root: " + op + " needs one"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, &ClosedError{Label: s.root}
	}
	s.running.Add(1)
	return s.running.Done, nil
}
