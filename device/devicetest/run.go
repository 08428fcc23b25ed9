package devicetest

import (
	"testing"

	"felix.local/felix/device"
)

// Disk is a disk under test.
type Disk struct {
	FS    device.FS
	Queue device.Queue
	// Root is an existing, empty directory of FS.
	Root string
}

// section is a group of facts about one part of the contract.
type section struct {
	name  string
	facts []fact
}

// fact is one promise; its name is the promise.
type fact struct {
	name  string
	check func(e *env)
}

// Run checks every promise, each on a disk of its own. The suite closes the
// queue that open returns; everything else is open's to clean up.
func Run(t *testing.T, open func(t *testing.T) Disk) {
	for _, s := range []section{
		{"write", writeFacts},
		{"flush", flushFacts},
		{"allocate", allocateFacts},
		{"perform", performFacts},
		{"queue", queueFacts},
		{"close", closeFacts},
		{"error", errorFacts},
		{"file", fileFacts},
		{"namespace", namespaceFacts},
		{"not regular", irregularFacts},
		{"lock", lockFacts},
		{"full", fullFacts},
	} {
		t.Run(s.name, func(t *testing.T) {
			for _, f := range s.facts {
				t.Run(f.name, func(t *testing.T) { f.check(newEnv(t, open(t))) })
			}
		})
	}
}
