package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// writeUntilKilled is the child: publishers that append until the process is
// killed, and a line on standard output for each acknowledgement.
func writeUntilKilled() error {
	ctx := context.Background()
	cfg := crashConfig()
	var err error
	if cfg.FsyncMode, err = engine.ParseFsyncMode(os.Getenv("ENGINE_TEST_FSYNC")); err != nil {
		return err
	}
	if cfg.IOURing, err = engine.ParseIOURingMode(os.Getenv("ENGINE_TEST_IOURING")); err != nil {
		return err
	}
	if cfg.RolloverThresholdPercent, err = strconv.Atoi(os.Getenv("ENGINE_TEST_THRESHOLD")); err != nil {
		return err
	}
	cycle := os.Getenv("ENGINE_TEST_CYCLE")
	store, err := engine.OpenStore(ctx, os.Getenv("ENGINE_TEST_ROOT"), cfg)
	if err != nil {
		return err
	}
	l, err := store.OpenLog(ctx, testKey(0))
	if err != nil {
		return err
	}
	var out sync.Mutex
	failed := make(chan error)
	for p := range 4 {
		go func() {
			random := rand.New(rand.NewPCG(uint64(p), uint64(len(cycle))))
			for i := 0; ; i++ {
				records := make([]engine.Record, 1+random.IntN(4))
				for k := range records {
					records[k].Payload = crashPayload(fmt.Sprintf("%s/%d/%d/%d", cycle, p, i, k), random.IntN(600))
				}
				got, err := l.Append(ctx, records...)
				if err != nil {
					failed <- err
					return
				}
				out.Lock()
				_, err = fmt.Printf("%d %d %s/%d/%d\n", got.First, got.Last, cycle, p, i)
				out.Unlock()
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func crashConfig() engine.Config {
	c := testConfig()
	c.NowMicros, c.Random = nil, nil
	c.SegmentBytes = 16 << 10
	c.FsyncInterval = 20 * time.Millisecond
	return c
}

// crashPayload is a name and bytes that follow from it.
func crashPayload(name string, n int) []byte {
	b := append([]byte(name), ' ')
	for i := range n {
		b = append(b, name[i%len(name)]+byte(i))
	}
	return b
}

// wholePayload says whether a payload is what crashPayload made, and gives its
// name.
func wholePayload(b []byte) (name string, ok bool) {
	before, after, found := bytes.Cut(b, []byte{' '})
	return string(before), found && bytes.Equal(b, crashPayload(string(before), len(after)))
}

func TestAKilledProcessLosesNothingItAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	cycles := 5
	switch {
	case long():
		cycles = 50
	case raceDetector:
		cycles = 2 // it sees the parent alone, and makes every start slow
	}
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("FELIX_TEST_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("seed", seed, "(FELIX_TEST_SEED repeats it)")
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			cfg := crashConfig()
			backend(&cfg)
			mode(&cfg)
			k := killer{
				ctx: deadline(t), root: t.TempDir(), cfg: cfg, random: rand.New(rand.NewPCG(seed, 0)),
				acked: make(map[uint64]string),
			}
			for cycle := range cycles {
				k.write(t, cycle)
				k.verify(t)
				if t.Failed() {
					t.Fatalf("in cycle %d; the directory was %s", cycle, k.root)
				}
			}
			t.Logf("%d records acknowledged over %d kills, %d kept", len(k.acked), cycles, k.kept)
		})
	})
}

// killer knows what was acknowledged in all cycles so far.
type killer struct {
	ctx    context.Context
	root   string
	cfg    engine.Config
	random *rand.Rand
	acked  map[uint64]string // offset → name without the place in its batch
	kept   uint64
	// ran says that the last child got as far as acknowledging something.
	ran bool
}

// write runs the child, kills it after a random number of acknowledgements, and
// takes down what it acknowledged, to the last line that it wrote.
func (k *killer) write(t *testing.T, cycle int) {
	t.Helper()
	threshold := 100
	if cycle%2 == 1 {
		threshold = 50
	}
	cmd := child(t, "write until killed", "ENGINE_TEST_ROOT="+k.root, "ENGINE_TEST_FSYNC="+k.cfg.FsyncMode.String(),
		"ENGINE_TEST_IOURING="+settingOf(k.cfg.IOURing), fmt.Sprint("ENGINE_TEST_CYCLE=", cycle),
		fmt.Sprint("ENGINE_TEST_THRESHOLD=", threshold))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	// Killed while it opens the log or soon after, at the first acknowledgement,
	// within a segment, or after some rolls.
	left := []int{0, 1, 1 + k.random.IntN(50), 100 + k.random.IntN(400)}[k.random.IntN(4)]
	if left == 0 {
		time.Sleep(time.Duration(k.random.IntN(20)) * time.Millisecond)
		kill()
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // a line cut short by the kill was no acknowledgement
		}
		if err != nil {
			t.Fatal(err)
		}
		k.take(t, line)
		k.ran = true
		if left--; left == 0 {
			kill()
		}
	}
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("the child ended by itself: %v\n%s", err, &stderr)
	}
}

func (k *killer) take(t *testing.T, line string) {
	t.Helper()
	var first, last uint64
	var name string
	if _, err := fmt.Sscanf(line, "%d %d %s", &first, &last, &name); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	for offset := first; offset <= last; offset++ {
		if other, taken := k.acked[offset]; taken {
			t.Fatalf("offset %d was acknowledged for %s and for %s", offset, other, name)
		}
		k.acked[offset] = name
	}
}

// verify opens the log, checks every record and every acknowledgement, closes it,
// and sees that opening it twice more changes nothing.
func (k *killer) verify(t *testing.T) {
	t.Helper()
	if k.ran {
		if got := runState(t, k.root); got.State != sidecar.Running || got.AcksBeforeSync != (k.cfg.FsyncMode != engine.FsyncOnCommit) {
			t.Errorf("a killed process left %+v", got)
		}
	}
	r := newRigIn(t, k.root, func(c *engine.Config) { *c = k.cfg })
	if got := r.store.Identity(); k.ran && got.Fresh != (k.cfg.FsyncMode != engine.FsyncOnCommit) {
		t.Errorf("after it was killed the store is %+v", got)
	}
	k.ran = false
	records := r.readAll()
	r.checkChain()
	for i, record := range records {
		name, ok := wholePayload(record.Payload)
		if record.Offset != uint64(i) || !ok {
			t.Fatalf("record %d reads back as offset %d, %.40q", i, record.Offset, record.Payload)
		}
		if acked, ok := k.acked[record.Offset]; ok && !strings.HasPrefix(name, acked+"/") {
			t.Fatalf("offset %d was acknowledged for %s and holds %s", i, acked, name)
		}
	}
	// A killed process leaves the page cache as it is, so this holds in every
	// mode.
	for offset, name := range k.acked {
		if offset >= uint64(len(records)) {
			t.Fatalf("offset %d (%s) was acknowledged and the log ends at %d; recovery: %+v", offset, name, len(records), r.log.Recovery())
		}
	}
	k.kept = uint64(len(records))
	r.close()
	want := snapshot(t, k.root)
	for range 2 {
		r.open()
		r.close()
		sameFiles(t, want, snapshot(t, k.root))
	}
}
