package engine_test

import (
	"strings"
	"testing"

	"felix.local/felix/engine"
)

func TestAStoreSaysWhetherItHasACommitJournal(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.Journal = engine.JournalOff })
	if got := r.store.Journal(); got.State != "off" || got.Reason != "switched off" || got.Files != 0 {
		t.Errorf("%+v", got)
	}
	r = newRig(t, journaled)
	if got := r.store.Journal(); got.State != "ready" || got.Reason != "" || got.Files != 4 || got.Bytes != r.cfg.JournalBytes {
		t.Errorf("%+v", got)
	}
	r = newRig(t, func(c *engine.Config) { c.Journal, c.Preallocate = engine.JournalAuto, false })
	if got := r.store.Journal(); got.State != "off" || !strings.Contains(got.Reason, "preallocation") {
		t.Errorf("%+v", got)
	}
	if err := r.store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.store.Journal(); got.State != "closed" {
		t.Errorf("%+v", got)
	}
}
