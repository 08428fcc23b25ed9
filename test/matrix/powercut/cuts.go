package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/powercut/rig"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/test/matrix/vm"
)

// Row is what became of one combination of mode, backend and journal.
type Row struct {
	Kernel string
	Store  workload.Store
	// Cuts were during appends, RecoveryCuts while stores were being opened.
	Cuts, RecoveryCuts int
	// Appends were acknowledged, Records read back after the last cut. LetGo are
	// records that were acknowledged but not promised, and are gone.
	Appends, Records, LetGo uint64
	// Promised is how many records the starts had to find, summed up over them.
	Promised uint64
	Findings []Finding
}

// cutDiskBytes holds what twenty starts append.
const cutDiskBytes = 2 << 30

// What a cut waits for is drawn from these: acknowledgements of one store, and the time
// after the last of them.
const (
	acksMin, acksMax = 5, 80
	delayMax         = 20 * time.Millisecond
	recoveryDelayMax = 150 * time.Millisecond
)

// cutter cuts one disk's power over and over.
type cutter struct {
	Options
	stores []workload.Store
	chance *rand.Rand
	ledger *Ledger
	rows   map[string]*Row
	disk   []string
}

// Cuts runs all power cuts, on one disk, and a last start that only looks. Every start has
// the stores of all modes and backends open at once, so that each cut is one of each.
// At a finding it stops with an error, and what was found is in the rows, unless
// Options.Lie asks for findings.
func Cuts(ctx context.Context, o Options) ([]Row, error) {
	c := &cutter{Options: o, stores: o.allStores(), rows: make(map[string]*Row)}
	c.chance = rand.New(rand.NewPCG(o.Seed, 0))
	c.ledger = NewLedger(c.stores, nil)
	for _, s := range c.stores {
		c.rows[s.Name] = &Row{Kernel: o.Kernel.Release, Store: s}
	}
	image := o.path("cuts.img")
	if err := vm.MakeDisk(ctx, image, cutDiskBytes, "ext4", rig.MkfsOptions()...); err != nil {
		return nil, err
	}
	c.disk = nvme(image)
	for _, recovering := range c.order() {
		if err := c.cut(ctx, "cuts", recovering); err != nil {
			return c.result(), fmt.Errorf("%w; the disk is %s", err, image)
		}
		if c.found() && !o.Lie {
			break
		}
	}
	var err error
	if !c.found() || o.Lie {
		err = c.look(ctx, "cuts-last")
	}
	if c.found() && !o.Lie {
		err = errors.Join(err, fmt.Errorf("something was found; the disk is %s", image))
	}
	return c.result(), err
}

// order mixes the cuts during recovery among the others. The first start has nothing to
// recover.
func (c *cutter) order() []bool {
	order := make([]bool, c.Cuts+c.RecoveryCuts)
	for i := range c.RecoveryCuts {
		order[i] = true
	}
	c.chance.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	for i, recovering := range order {
		if !recovering {
			order[0], order[i] = order[i], order[0]
			break
		}
	}
	return order
}

// cut starts the machine and cuts its power: while it appends, or while it opens.
func (c *cutter) cut(ctx context.Context, name string, recovering bool) error {
	store := c.stores[c.chance.IntN(len(c.stores))].Name
	wait := trigger{kind: workload.Acked, store: store, count: acksMin + c.chance.IntN(acksMax-acksMin+1), delay: time.Duration(c.chance.Int64N(int64(delayMax)))}
	if recovering {
		wait = trigger{kind: workload.Opening, store: store, count: 1, delay: time.Duration(c.chance.Int64N(int64(recoveryDelayMax)))}
	}
	b := c.machine(name, workload.Spec{Root: dataDir, Stores: c.stores, Forever: true})
	failed, end := b.Run(ctx, rig.Listener{Event: func(guest *vm.Guest, e workload.Event) {
		c.take(e)
		if wait.pull(e) {
			time.AfterFunc(wait.delay, func() { _ = guest.Cut() }) // one that ended by itself is an error below
		}
	}})
	if !errors.Is(end, vm.ErrCut) || wait.count > 0 {
		return errors.Join(fmt.Errorf("the machine ended by itself before its power was cut: %w", end), failed)
	}
	if failed != nil {
		return failed
	}
	for _, row := range c.rows {
		if recovering {
			row.RecoveryCuts++
		} else {
			row.Cuts++
		}
	}
	c.progress("power cut %v", wait)
	return b.Clean()
}

// look starts the machine without appending.
func (c *cutter) look(ctx context.Context, name string) error {
	b := c.machine(name, workload.Spec{Root: dataDir, Stores: c.stores})
	failed, end := b.Run(ctx, rig.Listener{Event: func(_ *vm.Guest, e workload.Event) { c.take(e) }})
	return errors.Join(failed, end, b.Clean())
}

// machine is the next start: nothing was heard of yet.
func (c *cutter) machine(name string, spec workload.Spec) rig.Boot {
	c.ledger.Start()
	b := c.boot(name, ModeAppend, spec)
	b.Disks = c.disk
	b.Mounts = []plan.Mount{{Device: "/dev/nvme0n1", Filesystem: "ext4", Dir: dataDir}}
	return b
}

func (c *cutter) take(e workload.Event) {
	if row := c.rows[e.Store]; row != nil && e.Kind == workload.Acked {
		row.Appends++
	}
	for _, f := range c.ledger.Take(e) {
		if row := c.rows[f.Log.Store]; row != nil {
			row.Findings = append(row.Findings, f)
		}
	}
}

func (c *cutter) found() bool {
	for _, row := range c.rows {
		if len(row.Findings) > 0 {
			return true
		}
	}
	return false
}

func (c *cutter) result() []Row {
	var rows []Row
	for _, s := range c.stores {
		row := *c.rows[s.Name]
		row.LetGo, row.Promised = c.ledger.LetGo[s.Name], c.ledger.Held[s.Name]
		for at, n := range c.ledger.Found {
			if at.Store == s.Name {
				row.Records += n
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// trigger says after which event power goes out.
type trigger struct {
	kind  workload.Kind
	store string
	// count events have to come, 0 once they did.
	count int
	delay time.Duration
	total int
}

// pull says once that it is time.
func (t *trigger) pull(e workload.Event) bool {
	if e.Kind != t.kind || e.Store != t.store || t.count == 0 {
		return false
	}
	t.count--
	t.total++
	return t.count == 0
}

// String says what was waited for.
func (t trigger) String() string {
	return fmt.Sprintf("%v after %d of %s %s", t.delay.Round(time.Microsecond), t.total, t.kind, t.store)
}
