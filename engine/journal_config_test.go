package engine

import "testing"

func TestJournalModesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, mode := range []JournalMode{JournalOff, JournalAuto, JournalRequire} {
		if got, err := ParseJournalMode(mode.String()); err != nil || got != mode {
			t.Errorf("%v: %v, %v", mode, got, err)
		}
	}
	for text, want := range map[string]JournalMode{"1": JournalAuto, "0": JournalOff, "ON": JournalAuto} {
		if got, err := ParseJournalMode(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := ParseJournalMode("sometimes"); err == nil {
		t.Error("that was read as a mode")
	}
}
