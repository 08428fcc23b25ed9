package recovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/segment"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// damageCase is damage in and verdict out.
type damageCase struct {
	name   string
	setup  func(*shard)
	policy func(*Policy)
	// want is the plan in short: its steps, each as "action segment@position",
	// then the log that results as "[first,next) in n", or the refusals as
	// "refuse segment@position".
	want string
	// says has to appear in the rendered plan.
	says string
	// cause is the kind of damage behind the first refusal.
	cause segment.CorruptionKind
}

// short renders a plan for comparison.
func short(p *Plan) string {
	var parts []string
	for _, r := range p.Refusals {
		parts = append(parts, fmt.Sprintf("refuse %d@%d", r.Segment, r.Position))
	}
	if p.Refused() {
		return strings.Join(parts, "; ")
	}
	for _, s := range p.Steps {
		text := string(s.Action)
		switch s.Action {
		case CutTail:
			text += fmt.Sprintf(" %d@%d", s.Segment, s.Position)
			if s.BelowMark {
				text += " below mark"
			}
		case RemoveLeftover, PruneSideCopy:
			text += " " + s.File
		case MakeDirectory:
		default:
			text += fmt.Sprintf(" %d", s.Segment)
		}
		if s.RecordsDropped > 0 {
			text += fmt.Sprintf(" dropping %d", s.RecordsDropped)
		}
		parts = append(parts, text)
	}
	first := p.Active.BaseOffset
	if len(p.Sealed) > 0 {
		first = p.Sealed[0].BaseOffset
	}
	parts = append(parts, fmt.Sprintf("[%d,%d) in %d", first, p.Active.NextOffset, len(p.Sealed)+1))
	return strings.Join(parts, "; ")
}

func (c damageCase) policyOf() Policy {
	p := testPolicy()
	if c.policy != nil {
		c.policy(&p)
	}
	return p
}

func TestDamageGetsItsVerdict(t *testing.T) {
	for _, c := range damageCases() {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

func (c damageCase) run(t *testing.T) {
	s := newShard(t)
	c.setup(s)
	before := s.state()
	plan := s.plan(c.policyOf())
	if got := short(plan); got != c.want {
		t.Fatalf("planned %q, want %q\n%s", got, c.want, plan)
	}
	if !strings.Contains(plan.String(), c.says) {
		t.Errorf("the plan does not say %q:\n%s", c.says, plan)
	}
	if again := s.plan(c.policyOf()); again.String() != plan.String() {
		t.Errorf("the same directory gave another plan:\n%s\n%s", plan, again)
	}
	if digest(before) != digest(s.state()) {
		t.Fatal("inspecting changed the directory")
	}
	recovered, err := Open(osDisk(), s.dir, "orders/0", c.policyOf())
	if plan.Refused() {
		c.checkRefused(t, s, plan, before, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	checkCarriedOut(t, plan, recovered)
	checkRecovered(t, s, recovered, c.policyOf())
	checkKept(t, s, plan, recovered, before)
	checkIdempotent(t, s, recovered, c.policyOf())
}

// checkRefused: the error carries the plan's reasons and the directory is as it
// was.
func (c damageCase) checkRefused(t *testing.T, s *shard, plan *Plan, before map[string]string, err error) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("opened with %v, want a refusal", err)
	}
	if diff := cmp.Diff(plan.Refusals, refused.Refusals); diff != "" {
		t.Errorf("the refusal is not the planned one: %s", diff)
	}
	var damage *segment.Corruption
	if found := errors.As(err, &damage); found != (c.cause != 0) || found && damage.Kind != c.cause {
		t.Errorf("cause is %v, want %v", damage, c.cause)
	}
	for _, part := range []string{"orders/0", s.dir} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if diff := cmp.Diff(digest(before), digest(s.state())); diff != "" {
		t.Errorf("a refusal changed the directory: %s", diff)
	}
}

// checkCarriedOut: recovery did what the plan said.
func checkCarriedOut(t *testing.T, plan *Plan, r *Recovered) {
	t.Helper()
	ignore := cmp.Options{cmpopts.IgnoreFields(Step{}, "SideCopy"), cmpopts.IgnoreUnexported(Step{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(plan.Steps, r.Report.Steps, ignore); diff != "" {
		t.Errorf("recovery did something else than planned: %s", diff)
	}
	sameLog := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(segment.Descriptor{}, "CreatedAtMicros")}
	if diff := cmp.Diff(append(plan.Sealed, plan.Active), append(r.Sealed, r.Active), sameLog); diff != "" {
		t.Errorf("recovery gave another log than planned: %s", diff)
	}
}

// checkRecovered: what is on disk is what recovery says, with indexes as
// appending would have left them and a mark at the end of the log.
func checkRecovered(t *testing.T, s *shard, r *Recovered, p Policy) {
	t.Helper()
	all := append(append([]segment.Descriptor{}, r.Sealed...), r.Active)
	_, first, next := s.log()
	if !s.unread && (first != all[0].BaseOffset || next != r.Active.NextOffset) {
		t.Errorf("the files hold [%d,%d), recovery says [%d,%d)", first, next, all[0].BaseOffset, r.Active.NextOffset)
	}
	logs := 0
	for name := range s.state() {
		if _, ok := segment.ParseLogName(name); ok {
			logs++
		}
	}
	if logs != len(all) {
		t.Errorf("%d segment files, recovery says %d", logs, len(all))
	}
	for _, d := range all {
		b := s.read(segment.LogName(d.ID))
		if int64(len(b)) != d.Size {
			t.Errorf("segment %d is %d bytes, recovery says %d", d.ID, len(b), d.Size)
		}
		if d.ID == r.Active.ID && string(s.read(segment.IndexName(d.ID))) != string(indexOf(b, p.IndexSpacingBytes)) {
			t.Errorf("the active index is not what appending would have left")
		}
	}
	if got := segment.EncodeIndex(r.Active.BaseOffset, r.ActiveEntries); string(got) != string(s.read(segment.IndexName(r.Active.ID))) {
		t.Error("the entries handed over are not those on disk")
	}
	if mark, ok := DecodeMark(s.read(MarkName)); !ok || mark != r.Mark || mark != (Mark{r.Active.ID, r.Active.Size}) {
		t.Errorf("mark is %+v (%v), reported %+v", mark, ok, r.Mark)
	}
}

// checkKept: every byte that went is in a side copy.
func checkKept(t *testing.T, s *shard, plan *Plan, r *Recovered, before map[string]string) {
	t.Helper()
	for _, step := range r.Report.Steps {
		switch step.Action {
		case CutTail, SetAside:
			if want := before[step.File][step.Position:]; string(s.read(step.SideCopy)) != want {
				t.Errorf("%s does not hold what was cut from %s", step.SideCopy, step.File)
			}
		}
	}
	for _, name := range append(plan.snapshot.Foreign, plan.snapshot.Sidecars...) {
		if _, err := device.OS().Lstat(s.path(name)); err != nil {
			t.Errorf("a file that is not recovery's went: %v", err)
		}
	}
}

// checkIdempotent: a second open does nothing and gives the same log.
func checkIdempotent(t *testing.T, s *shard, r *Recovered, p Policy) {
	t.Helper()
	state := digest(s.state())
	if plan := s.plan(p); !plan.Clean() || len(plan.Steps) > 0 {
		t.Errorf("a recovered directory is not clean:\n%s", plan)
	}
	again, err := Open(osDisk(), s.dir, "orders/0", p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state, digest(s.state())); diff != "" {
		t.Errorf("opening again changed the directory: %s", diff)
	}
	if diff := cmp.Diff(r, again, cmpopts.IgnoreFields(Recovered{}, "Report"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("opening again gave another log: %s", diff)
	}
}
