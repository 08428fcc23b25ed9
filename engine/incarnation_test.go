package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/sidecar"
)

// The vectors of names, in every part of a root.
func TestShardsAreNamedAlikeInEveryPartOfARoot(t *testing.T) {
	key := func(tenant, namespace, stream string, shard uint32, incarnation uint64) engine.ShardKey {
		return engine.ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream, Shard: shard, Incarnation: incarnation}
	}
	for name, k := range map[string]engine.ShardKey{
		"acme_default_orders_0-0d3aed4b998d2798":                  key("acme", "default", "orders", 0, 0),
		"acme_default_orders_3-0d3af04b998d2cb1":                  key("acme", "default", "orders", 3, 0),
		"acme_default_orders_0-0d3aed4b998d2798-0006411a0ccf2e40": key("acme", "default", "orders", 0, 0x6411a0ccf2e40),
		"______0-17d9c15239d081d5":                                key("", "", "", 0, 0),
		"t1_default_telemetry_0-9eb9bf7f41e941d4":                 key("t1", "default", "telemetry", 0, 0),
		"t1_ns_jobs_0-c6d59b3c3b1363e5":                           key("t1", "ns", "jobs", 0, 0),
		"a_b_c_d____7-3ea2eb497be4419d":                           key("a/b", "c.d", "..", 7, 0),
		"_n__ns_ordres-__0-2e4c328e62042ee1":                      key("Ünï", "ns", "ordres-é", 0, 0),
		strings.Repeat("x", 32) + "_ns_s_0-245e109b522a0c88":      key(strings.Repeat("x", 40), "ns", "s", 0, 0),
		"a_bc_d_0-b2f2d4e0c3069335":                               key("a", "bc", "d", 0, 0),
		"ab_c_d_0-3585bb16a694815d-ffffffffffffffff":              key("ab", "c", "d", 0, ^uint64(0)),
	} {
		for part, dir := range map[engine.SubRoot]string{
			engine.StreamShards: "/data", engine.CacheShards: "/data/caches", engine.CounterShards: "/data/counters",
			engine.GroupShards: "/data/groups", engine.DeadLetterShards: "/data/dead-letters",
		} {
			if got := part.ShardDir("/data", k); got != dir+"/"+name || part.Dir("/data") != dir {
				t.Errorf("%v in %q: %s, want %s/%s", k, part, got, dir, name)
			}
		}
	}
	if got := engine.GroupShards.MarkerPath("/data", "acme", "default", "orders"); got != "/data/.streams/acme_default_orders-fcb9248e5af0da18" {
		t.Error(got)
	}
	if got := engine.CounterShards.MarkerPath("/data", "acme", "default", "orders"); got != "/data/caches/.streams/acme_default_orders-fcb9248e5af0da18" {
		t.Error(got)
	}
	if n := len(engine.SubRoots()); n != 5 {
		t.Errorf("%d parts", n)
	}
}

const markerFile = ".streams/t_n_s-67fc8497a30b3c17"

func (r *rig) begin() uint64 {
	r.Helper()
	incarnation, err := r.store.BeginStream(r.ctx, "t", "n", "s")
	if err != nil {
		r.Fatal(err)
	}
	return incarnation
}

func (r *rig) beginDeletion(incarnation uint64) {
	r.Helper()
	if err := r.store.BeginDeletion(r.ctx, "t", "n", "s", incarnation); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) finishDeletion() {
	r.Helper()
	if err := r.store.FinishDeletion(r.ctx, "t", "n", "s"); err != nil {
		r.Fatal(err)
	}
}

func incarnated(shard int, incarnation uint64) engine.ShardKey {
	key := testKey(shard)
	key.Incarnation = incarnation
	return key
}

// A stream's name begins at incarnation 0, without a marker; each creation after a
// deletion gets a higher one, and the directories of another are not opened.
func TestAStreamCreatedAgainNeverOpensTheOldOnesDirectories(t *testing.T) {
	r := newRig(t)
	if got := r.begin(); got != 0 || r.begin() != 0 {
		t.Errorf("the first incarnation is %d", got)
	}
	if _, err := os.Stat(filepath.Join(r.root, ".streams")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a marker for a stream that was never deleted:", err)
	}
	r.appendSizes(80, 80)
	for held := uint64(0); held < 3; held++ {
		r.beginDeletion(held)
		r.beginDeletion(held)
		_, err := r.store.BeginStream(r.ctx, "t", "n", "s")
		errorAs[*engine.IncarnationError](t, err)
		// Its shards are not opened any more, and the deletion does not end before
		// they are gone.
		_, err = r.store.OpenLog(r.ctx, incarnated(1, held))
		errorAs[*engine.IncarnationError](t, err)
		err = r.store.FinishDeletion(r.ctx, "t", "n", "s")
		if e := errorAs[*engine.IncarnationError](t, err); !strings.Contains(e.Reason, testKey(0).DirName()) {
			t.Error(err)
		}
		r.reopenStore()
		if got, err := r.store.StreamIncarnation(r.ctx, "t", "n", "s"); err != nil || !got.Marked || !got.Deleting || got.Incarnation != held {
			t.Errorf("after a restart: %+v, %v", got, err)
		}
		if err := r.store.DeleteLog(r.ctx, incarnated(0, held)); err != nil {
			t.Fatal(err)
		}
		r.finishDeletion()
		r.finishDeletion()
		if got, err := r.store.StreamIncarnation(r.ctx, "t", "n", "s"); err != nil || got.Deleting || got.DeletedThrough != held {
			t.Errorf("%+v, %v", got, err)
		}
		next := r.begin()
		if next != held+1 {
			t.Errorf("after %d comes %d", held, next)
		}
		for _, other := range []uint64{held, next + 1} {
			_, err = r.store.OpenLog(r.ctx, incarnated(0, other))
			if e := errorAs[*engine.IncarnationError](t, err); e.Asked != other {
				t.Error(err)
			}
		}
		log, err := r.store.OpenLog(r.ctx, incarnated(0, next))
		if err != nil || log.TailOffset() != 0 {
			t.Fatalf("incarnation %d: %v", next, err)
		}
		putOne(t, log)
	}
	// A creation that was tried and given up uses its incarnation up.
	if a, b := r.begin(), r.begin(); b != a+1 {
		t.Errorf("%d and %d", a, b)
	}
}

// reopenStore opens the store alone.
func (r *rig) reopenStore() {
	r.Helper()
	r.close()
	var err error
	if r.store, err = engine.OpenStore(r.ctx, r.root, r.cfg); err != nil {
		r.Fatal(err)
	}
}

func TestIncarnationsDoNotWrapAround(t *testing.T) {
	r := newRig(t)
	r.beginDeletion(0)
	r.reopenStore()
	put(t, r.root, markerFile, sidecar.Marker{Incarnation: 3, DeletedThrough: ^uint64(0) - 1}.AppendTo(nil))
	if got := r.begin(); got != ^uint64(0) {
		t.Error(got)
	}
	_, err := r.store.BeginStream(r.ctx, "t", "n", "s")
	errorAs[*engine.IncarnationError](t, err)
}

// A marker that cannot be read may name any incarnation: its stream is refused, in
// every call; others are served.
func TestADamagedMarkerRefusesItsStreamAlone(t *testing.T) {
	r := newRig(t)
	key := engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "other"}
	r.beginDeletion(0)
	r.reopenStore()
	whole := sidecar.Marker{Incarnation: 5, DeletedThrough: 4}.AppendTo(nil)
	refused := 0
	for name, damaged := range damages(whole) {
		if _, err := sidecar.DecodeMarker(damaged); err == nil {
			continue
		}
		put(t, r.root, markerFile, damaged)
		_, opened := r.store.OpenLog(r.ctx, incarnated(0, 5))
		_, asked := r.store.StreamIncarnation(r.ctx, "t", "n", "s")
		_, begun := r.store.BeginStream(r.ctx, "t", "n", "s")
		deleting := r.store.BeginDeletion(r.ctx, "t", "n", "s", 5)
		for what, err := range map[string]error{
			"open": opened, "ask": asked, "begin": begun, "delete": deleting, "finish": r.store.FinishDeletion(r.ctx, "t", "n", "s"),
			"continue": r.store.ContinueStream(r.ctx, "t", "n", "s", 5),
		} {
			var marker *engine.MarkerError
			if !errors.As(err, &marker) || !strings.Contains(err.Error(), markerFile) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		refused++
	}
	if refused < len(whole)*8 {
		t.Errorf("only %d damages", refused)
	}
	log, err := r.store.OpenLog(r.ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	putOne(t, log)
}

// A power loss at any moment of a change of a marker leaves what was or what was to
// be; once the call has returned, what was to be.
func TestAPowerLossInAChangeOfAMarkerLeavesOneOfTheTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t)
		if err := r.store.DeleteLog(r.ctx, testKey(0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var before, after sidecar.Marker
		for i, step := range []struct {
			after sidecar.Marker
			do    func() error
		}{
			{sidecar.Marker{Deleting: true}, func() error { return r.store.BeginDeletion(r.ctx, "t", "n", "s", 0) }},
			{sidecar.Marker{}, func() error { return r.store.FinishDeletion(r.ctx, "t", "n", "s") }},
			{sidecar.Marker{Incarnation: 1}, func() error { _, err := r.store.BeginStream(r.ctx, "t", "n", "s"); return err }},
			{sidecar.Marker{Incarnation: 1, Deleting: true}, func() error { return r.store.BeginDeletion(r.ctx, "t", "n", "s", 1) }},
			{sidecar.Marker{Incarnation: 1, DeletedThrough: 1}, func() error { return r.store.FinishDeletion(r.ctx, "t", "n", "s") }},
			{sidecar.Marker{Incarnation: 2, DeletedThrough: 1}, func() error { _, err := r.store.BeginStream(r.ctx, "t", "n", "s"); return err }},
		} {
			returned, images := false, 0
			before, after = after, step.after
			look := func() {
				for image := range r.disk.States(simdisk.Bound{StatesMax: imagesAtOnce, Seed: 1}).All() {
					images++
					cfg := r.cfg
					cfg.FS, cfg.Queue = image, image.NewQueue(simdisk.QueueOptions{})
					store, err := engine.OpenStore(r.ctx, simRoot, cfg)
					if err != nil {
						t.Error(err)
						continue
					}
					got, err := store.StreamIncarnation(r.ctx, "t", "n", "s")
					if err != nil || got.Marker != after && (returned || got.Marker != before) {
						t.Errorf("step %d, returned %v: %+v, %v", i, returned, got, err)
					}
					if err := store.Close(r.ctx); err != nil {
						t.Error(err)
					}
				}
			}
			r.disk.BeforeChange(func(simdisk.Change) { look() })
			err := step.do()
			r.disk.BeforeChange(nil)
			if err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			returned = true
			if look(); images < 3 {
				t.Errorf("step %d: %d images", i, images)
			}
		}
	})
}

// A change whose last flush failed is made again by whoever looks next, before it is
// acted upon.
func TestAMarkerWhoseFlushFailedIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, call := range []string{"finish", "ask", "open"} {
			r := newSimRig(t)
			r.beginDeletion(0)
			if err := r.store.DeleteLog(r.ctx, testKey(0)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			r.disk.FailSync(simdisk.SyncFault{Dirs: true, Path: suffix(sidecar.MarkersDir)})
			err := r.store.FinishDeletion(r.ctx, "t", "n", "s")
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: %v", call, err)
			}
			switch call {
			case "finish":
				r.finishDeletion()
			case "ask":
				_, err = r.store.StreamIncarnation(r.ctx, "t", "n", "s")
			case "open":
				_, err = r.store.OpenLog(r.ctx, testKey(0))
			}
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Error(call, err)
			}
			for image := range r.disk.States(simdisk.Bound{StatesMax: imagesAtOnce, Seed: 1}).All() {
				m, err := sidecar.LoadMarker(image, simRoot, filepath.Base(markerFile))
				if err != nil || m == nil || m.Deleting {
					t.Errorf("%s: a power loss leaves %+v, %v", call, m, err)
				}
			}
			r.close()
		}
	})
}

// A marker that a process of before put in its place, and could not flush, is durable
// before anybody hears of it: what a process writes there, nobody else flushes.
func TestAMarkerThatAFormerProcessCouldNotFlushIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for call, do := range map[string]func(s *engine.Store) error{
			"ask":   func(s *engine.Store) error { _, err := s.StreamIncarnation(t.Context(), "t", "n", "s"); return err },
			"begin": func(s *engine.Store) error { _, err := s.BeginStream(t.Context(), "t", "n", "s"); return err },
			"open":  func(s *engine.Store) error { _, err := s.OpenLog(t.Context(), incarnated(0, 1)); return err },
		} {
			r := newSimRig(t)
			r.beginDeletion(0)
			r.disk.FailSync(simdisk.SyncFault{Dirs: true, Path: suffix(sidecar.MarkersDir)})
			if err := r.store.BeginDeletion(r.ctx, "t", "n", "s", 1); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: %v", call, err)
			}
			store, disk := openAfterDeath(t, r)
			var refused *engine.IncarnationError
			if err := do(store); call == "ask" && err != nil || call != "ask" && !errors.As(err, &refused) {
				t.Errorf("%s: %v", call, err)
			}
			for image := range disk.States(simdisk.Bound{StatesMax: imagesAtOnce, Seed: 1}).All() {
				m, err := sidecar.LoadMarker(image, simRoot, filepath.Base(markerFile))
				if want := (sidecar.Marker{Incarnation: 1, Deleting: true}); err != nil || m == nil || *m != want {
					t.Errorf("%s: a power loss leaves %+v, %v", call, m, err)
				}
			}
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
			r.close()
		}
	})
}

// openAfterDeath opens the store that the process of a rig leaves when it is killed:
// what was written is there, whether or not it was flushed.
func openAfterDeath(t testing.TB, r *simRig) (*engine.Store, *simdisk.Disk) {
	t.Helper()
	disk := r.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
	cfg := r.cfg
	cfg.FS, cfg.Queue, cfg.Random = disk, disk.NewQueue(simdisk.QueueOptions{}), nil
	store, err := engine.OpenStore(t.Context(), simRoot, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store, disk
}

// What another build added to a marker outlives that it is read.
func TestAMarkerStaysByteForByteWhenItIsRead(t *testing.T) {
	r := newRig(t)
	if err := os.Mkdir(filepath.Join(r.root, sidecar.MarkersDir), 0o750); err != nil {
		t.Fatal(err)
	}
	const text = "version 1\nincarnation 3\ndeleting 0\ndeleted_through 2\ncolour red\n"
	put(t, r.root, markerFile, []byte(text))
	if m, err := r.store.StreamIncarnation(r.ctx, "t", "n", "s"); err != nil || m.Incarnation != 3 {
		t.Fatalf("%+v, %v", m, err)
	}
	if got := string(content(t, r.root, markerFile)); got != text {
		t.Errorf("it is now %q", got)
	}
}

// A definition is durable before a stream serves, so a marker that lags behind one was
// put back from an older copy, and is raised; one that is ahead is a later stream's.
func TestAMarkerThatLagsIsRaised(t *testing.T) {
	for name, c := range map[string]struct {
		marker     *sidecar.Marker
		continued  engine.StreamMarker
		deleted    sidecar.Marker
		refused    bool
		incarnated uint64
	}{
		"none": {incarnated: 2, deleted: sidecar.Marker{Incarnation: 2, DeletedThrough: 2}},
		"one that lags": {
			marker: &sidecar.Marker{Incarnation: 1, Deleting: true}, incarnated: 2,
			continued: engine.StreamMarker{Marked: true, Marker: sidecar.Marker{Incarnation: 2}}, deleted: sidecar.Marker{Incarnation: 2, DeletedThrough: 2},
		},
		"the same": {
			marker: &sidecar.Marker{Incarnation: 2, DeletedThrough: 1}, incarnated: 2,
			continued: engine.StreamMarker{Marked: true, Marker: sidecar.Marker{Incarnation: 2, DeletedThrough: 1}}, deleted: sidecar.Marker{Incarnation: 2, DeletedThrough: 2},
		},
		"one that is ahead": {marker: &sidecar.Marker{Incarnation: 3, DeletedThrough: 2}, incarnated: 2, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if err := r.store.DeleteLog(r.ctx, testKey(0)); err != nil {
				t.Fatal(err)
			}
			if c.marker != nil {
				if err := os.Mkdir(filepath.Join(r.root, sidecar.MarkersDir), 0o750); err != nil {
					t.Fatal(err)
				}
				put(t, r.root, markerFile, c.marker.AppendTo(nil))
			}
			continued := r.store.ContinueStream(r.ctx, "t", "n", "s", c.incarnated)
			if got, err := r.store.StreamIncarnation(r.ctx, "t", "n", "s"); err != nil || !c.refused && got != c.continued {
				t.Errorf("%+v, %v", got, err)
			}
			begun := r.store.BeginDeletion(r.ctx, "t", "n", "s", c.incarnated)
			for _, err := range []error{continued, begun} {
				if c.refused {
					errorAs[*engine.IncarnationError](t, err)
				} else if err != nil {
					t.Error(err)
				}
			}
			if r.finishDeletion(); c.refused {
				c.deleted = *c.marker
			}
			if got, err := r.store.StreamIncarnation(r.ctx, "t", "n", "s"); err != nil || got.Marker != c.deleted {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// Shards of a stream are found by their names, of whatever number and incarnation; what
// has another name is none of them.
func TestTheShardsOfAStreamAreFoundByTheirNames(t *testing.T) {
	r := newRig(t)
	mine := []engine.ShardKey{incarnated(7, 0), incarnated(1<<32-1, 0), incarnated(0, 3), incarnated(1, 3), incarnated(2, ^uint64(0))}
	for _, key := range append(mine, engine.ShardKey{Tenant: "t", Namespace: "n_s", Stream: "", Shard: 7}, engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s_7-1"}) {
		if err := os.MkdirAll(filepath.Join(r.root, key.DirName()), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"t_n_s_7", "t_n_s_x-0", "t_n_s_7-0123456789abcdef", testKey(9).DirName() + "-3", testKey(9).DirName() + "-x", testKey(9).DirName() + "-0000000000000003-1"} {
		if err := os.Mkdir(filepath.Join(r.root, other), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	put(t, r.root, incarnated(8, 0).DirName(), nil)
	for through, want := range map[uint64]int{0: 3, 2: 3, 3: 5, ^uint64(0): 6} {
		got, err := r.store.StreamShards(r.ctx, "t", "n", "s", through)
		if err != nil || len(got) != want {
			t.Errorf("through %d: %v, %v, want %d", through, got, err, want)
		}
		for _, key := range got {
			if !slices.Contains(mine, key) && key != testKey(0) {
				t.Errorf("found %+v", key)
			}
		}
	}
}
