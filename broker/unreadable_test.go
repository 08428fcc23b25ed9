package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// definitionFile gives the file that defines a stream.
func definitionFile(t testing.TB, root, stream string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, broker.DefinitionsDir, "*_"+stream+"_*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the files of stream %s: %v, %v", stream, found, err)
	}
	return found[0]
}

// forget removes the definition of a stream and leaves its shards.
func (r *rig) forget(stream string) {
	r.Helper()
	if err := os.Remove(definitionFile(r, r.cfg.Root, stream)); err != nil {
		r.Fatal(err)
	}
}

// threeStreams is a closed root with three streams that hold a record each.
func threeStreams(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, unflushed, func(c *broker.Config) { c.Engine.IOURing = engine.IOURingOff })
	for _, stream := range []string{"one", "two", "three"} {
		r.publish(r.create(name(stream), broker.StreamConfig{Durable: true, Fsync: ptr(engine.FsyncOnCommit)}), 0, "of "+stream)
	}
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.b = nil
	return r
}

// wantUnavailable checks that exactly the stream "two" is not served, whoever asks.
func (r *rig) wantUnavailable(what string) {
	r.Helper()
	for _, stream := range []string{"one", "three"} {
		s := r.stream(name(stream))
		r.wantTexts(s, 0, 0, "of "+stream)
		if mode := s.Config().Fsync; *mode != engine.FsyncOnCommit {
			r.Errorf("%s: %s has the mode %v", what, stream, *mode)
		}
	}
	_, looked := r.b.Stream(name("two"))
	_, _, created := r.b.CreateStream(r.ctx, name("two"), broker.StreamConfig{Durable: true})
	deleted := r.b.DeleteStream(r.ctx, name("two"))
	for _, err := range []error{looked, created, deleted} {
		e := errorAs[*broker.UnavailableError](r, err)
		if e.Stream != name("two") || e.Shard != -1 || e.State != broker.StateRefused {
			r.Errorf("%s: %+v", what, e)
		}
		errorAs[*broker.DefinitionError](r, err)
	}
	health := r.b.Health()
	if !health.Ready || len(health.Unavailable) != 1 || health.Unavailable[0].Shard != -1 || health.Unavailable[0].Reason == "" {
		r.Errorf("%s: health is %+v", what, health)
	}
	listed := 0
	for _, info := range r.b.Streams() {
		if info.Err != nil {
			listed++
			if !strings.Contains(info.Name.Stream, "two") {
				r.Errorf("%s: listed as %v", what, info.Name)
			}
		}
	}
	if stats := r.b.Stats(); listed != 1 || stats.UnreadableStreams != 1 || stats.Streams != 3 {
		r.Errorf("%s: %d listed with an error, %+v", what, listed, stats)
	}
}

// Every cut and every flipped bit is refused by decoding; this is what a server
// makes of some of them.
func TestADamagedDefinitionMakesItsStreamUnavailableAndNoOther(t *testing.T) {
	r := threeStreams(t)
	file := definitionFile(t, r.cfg.Root, "two")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r.open()
		r.wantUnavailable(what)
		if err := r.b.Close(r.ctx); err != nil {
			t.Error(err)
		}
		after, err := os.ReadFile(file)
		if err != nil || string(after) != string(b) {
			t.Errorf("%s: the file was changed to %q, %v", what, after, err)
		}
	}
	for n := 0; n < len(good); n += 23 {
		check("cut", good[:n])
	}
	check("without its last byte", good[:len(good)-1])
	for bit := 3; bit < len(good)*8; bit += 8*19 + 1 {
		flipped := append([]byte(nil), good...)
		flipped[bit/8] ^= 1 << (bit % 8)
		check("flipped", flipped)
	}
	check("zeros", make([]byte, len(good)))
	check("larger than a definition can be", make([]byte, 2<<20))

	// With the file put back the stream is what it was.
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	r.wantTexts(r.stream(name("two")), 0, 0, "of two")
}

func TestADefinitionUnderAnotherNameIsNotServed(t *testing.T) {
	r := threeStreams(t)
	one, two := definitionFile(t, r.cfg.Root, "one"), definitionFile(t, r.cfg.Root, "two")
	b, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(two, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	r.wantUnavailable("a copy of another's definition")
}

func TestADefinitionThatIsNoRegularFileMakesItsStreamUnavailable(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"a directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"a symbolic link":    func(path string) error { return os.Symlink("/etc/passwd", path) },
		"an unreadable link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(what, func(t *testing.T) {
			r := threeStreams(t)
			file := definitionFile(t, r.cfg.Root, "two")
			if err := errors.Join(os.Remove(file), put(file)); err != nil {
				t.Fatal(err)
			}
			r.open()
			r.wantUnavailable(what)
		})
	}
}

// A stream whose definition is lost is created again, and its records are there.
func TestAStreamWhoseDefinitionWasRemovedAdoptsItsRecords(t *testing.T) {
	r := threeStreams(t)
	r.forget("two")
	r.open()
	_, err := r.b.Stream(name("two"))
	errorAs[*broker.NotFoundError](t, err)
	s := r.create(name("two"), broker.StreamConfig{Durable: true})
	r.wantTexts(s, 0, 0, "of two")
	if p := r.publish(s, 0, "more"); p.First != 1 {
		t.Errorf("%+v", p)
	}
}

// What a crash left of a write under way is no definition and disturbs none.
func TestATemporaryFileThatIsLeftOverChangesNothing(t *testing.T) {
	r := threeStreams(t)
	two := definitionFile(t, r.cfg.Root, "two")
	three := definitionFile(t, r.cfg.Root, "three")
	for _, path := range []string{two + ".tmp", strings.Replace(two, "two", "new", 1) + ".tmp"} {
		if err := os.WriteFile(path, []byte(`{"version":1,"defin`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(three), "README"), []byte("a stranger's"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	for _, stream := range []string{"one", "two", "three"} {
		r.wantTexts(r.stream(name(stream)), 0, 0, "of "+stream)
	}
	if n := len(r.b.Streams()); n != 3 {
		t.Errorf("%d streams", n)
	}
	if h := r.b.Health(); len(h.Unavailable) != 0 {
		t.Errorf("%+v", h)
	}
	// The next change of that stream is not held up by it.
	if _, _, err := r.b.CreateStream(r.ctx, name("two"), broker.StreamConfig{Durable: true, Shards: 2}); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	if n := r.stream(name("two")).Shards(); n != 2 {
		t.Errorf("%d shards after a restart", n)
	}
}

// Two names whose hashes agree have one file; the second one to come must not take
// the first one's definition away.
func TestAFileThatIsAnotherStreamsIsNotReplaced(t *testing.T) {
	r := threeStreams(t)
	r.open()
	r.create(name("twin"), broker.StreamConfig{Durable: true})
	one, twin := definitionFile(t, r.cfg.Root, "one"), definitionFile(t, r.cfg.Root, "twin")
	if err := r.b.DeleteStream(t.Context(), name("twin")); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(twin, want, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.b.CreateStream(t.Context(), name("twin"), broker.StreamConfig{Durable: true})
	errorAs[*broker.DefinitionError](t, err)
	if got, err := os.ReadFile(twin); err != nil || string(got) != string(want) {
		t.Errorf("the file holds %q now, %v", got, err)
	}
}
