package powercut

import (
	"fmt"

	"felix.local/felix/test/matrix/powercut/blocklog"
	"felix.local/felix/test/matrix/powercut/workload"
)

// Asked is how much of each kind a run was to do per kernel.
type Asked struct{ Cuts, RecoveryCuts, Moments int }

// Failures are what makes the run a failure, a line each: findings, and rows that show
// nothing. Under Lie findings are wanted: a combination that lied and lost nothing fails.
func (r Report) Failures() (lines []string) {
	judge := func(kind, kernel string, store workload.Store, found []Finding, shown []string) {
		switch {
		case store.Lie && lost(found) == 0:
			lines = append(lines, fmt.Sprintf("%s, %s, %s: it acknowledged what was not durable, and nothing was found to be lost", kind, kernel, store.Name))
		case !store.Lie && len(found) > 0:
			for _, f := range found {
				lines = append(lines, fmt.Sprintf("%s, %s, %v", kind, kernel, f))
			}
			return // and there the run was broken off
		}
		for _, text := range shown {
			lines = append(lines, fmt.Sprintf("%s, %s, %s: %s", kind, kernel, store.Name, text))
		}
	}
	for _, row := range r.Cuts {
		judge("power cuts", row.Kernel, row.Store, row.Findings, row.lacks(r.Asked))
	}
	for _, replay := range r.Replays {
		for _, row := range replay.Rows {
			judge("replay", row.Kernel, row.Store, row.Findings, row.lacks(replay.Moments))
		}
	}
	if len(r.Cuts)+len(r.Replays) == 0 {
		lines = append(lines, "nothing was run")
	}
	return lines
}

// lacks says why a row shows less than was asked for. A log under none may promise
// nothing, since no sync has to happen.
func (row Row) lacks(asked Asked) (lines []string) {
	if row.Cuts < asked.Cuts || row.RecoveryCuts < asked.RecoveryCuts {
		lines = append(lines, fmt.Sprintf("%d power cuts and %d during recovery, want %d and %d", row.Cuts, row.RecoveryCuts, asked.Cuts, asked.RecoveryCuts))
	}
	if asked.Cuts > 0 && row.Appends == 0 {
		lines = append(lines, "nothing was acknowledged")
	}
	if asked.Cuts > 0 && row.Promised == 0 && row.Store.Mode != "none" {
		lines = append(lines, "nothing was promised before any of the cuts")
	}
	return lines
}

// lacks says why a row shows less than what moments of a log have.
func (row ReplayRow) lacks(moments int) (lines []string) {
	for _, cache := range []blocklog.Cache{blocklog.Kept, blocklog.Lost, blocklog.Some} {
		if n := row.Images[cache]; n == 0 || n < moments {
			lines = append(lines, fmt.Sprintf("%d images with the cache %v, want one for each of %d moments", n, cache, moments))
		}
	}
	if row.Promised == 0 {
		lines = append(lines, "nothing was promised at any of the moments")
	}
	return lines
}
