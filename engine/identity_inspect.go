package engine

import (
	"felix.local/felix/device"
	"felix.local/felix/sidecar"
)

// IdentityReport says what a start would make of a root's identity.
type IdentityReport struct {
	// ID is the storage id that is there; nil when there is none.
	ID *sidecar.StorageID
	// NewID says that the start would make a new one, and Reason why.
	NewID    bool
	Reason   string
	Previous PreviousRun
	// Warnings are what it would log.
	Warnings []string
}

// InspectIdentity reads what OpenStore reads and changes nothing. The error is the
// one that the start would be refused with. nodeIncarnation is as in Config.
func InspectIdentity(disk device.FS, root string, nodeIncarnation uint64) (IdentityReport, error) {
	s := &Store{fs: disk, root: root}
	if err := s.refuseUnrestored(); err != nil {
		return IdentityReport{}, err
	}
	found, err := s.readIdentity()
	if err != nil {
		return IdentityReport{}, err
	}
	plan := decideIdentity(found, nodeIncarnation)
	return IdentityReport{ID: found.id, NewID: plan.make, Reason: plan.reason, Previous: plan.previous, Warnings: plan.warnings}, nil
}
