package powercut

import (
	"fmt"
	"strings"
	"time"

	"felix.local/felix/test/matrix/powercut/blocklog"
	"felix.local/felix/test/matrix/powercut/workload"
)

// Report is a whole run, for Markdown.
type Report struct {
	// Date is the day, Command what was run.
	Date    time.Time
	Command string
	// Revision is the commit that was run.
	Revision string
	Seed     uint64
	Lie      bool
	Asked    Asked
	Cuts     []Row
	Replays  []ReplayResult
	// Skipped says of parts why they were not run.
	Skipped []string
}

// lost adds up the promised records that are gone.
func lost(found []Finding) (sum uint64) {
	for _, f := range found {
		sum += f.Lost
	}
	return sum
}

// wrong counts findings that are no lost records: gaps, wrong payloads, logs that cannot
// be opened.
func wrong(found []Finding) (n int) {
	for _, f := range found {
		if f.Lost == 0 {
			n++
		}
	}
	return n
}

// Markdown is the tables, and how they are to be read.
func (r Report) Markdown() string {
	var b strings.Builder
	title := "Power cuts"
	if r.Lie {
		title = "Power cuts, check of the checker"
	}
	fmt.Fprintf(&b, "### %s\n\n%s, `%s`, revision %s, seed %d.\n", title, r.Date.UTC().Format(time.DateOnly), r.Command, r.Revision, r.Seed)
	if r.Lie {
		b.WriteString("\nThe losses below are wanted: where power is cut, the program wrote with mode `none` under\n" +
			"`on_commit` and acknowledged all the same; where the disk logs, its filesystem was mounted\n" +
			"without barriers, so that no flush reached the disk and only what its cache kept is there.\n")
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "\n**Skipped:** %s\n", s)
	}
	r.cutsMarkdown(&b)
	for _, replay := range r.Replays {
		replay.markdown(&b)
	}
	return b.String()
}

func (r Report) cutsMarkdown(b *strings.Builder) {
	if len(r.Cuts) == 0 {
		return
	}
	b.WriteString(`
The emulator is killed while a guest appends, on one disk again and again; the next start
recovers, reads everything back and goes on. The guest has a store of each row open and
appends to all of them at once, so each kill is a power cut of every row, and counts once
in each. *Appends* are the acknowledgements the host saw before the kills. *Promised* is what was acknowledged under
` + "`on_commit`" + `, and in every mode what the log had reported durable or a start had read
back, summed up over the starts. What is there has to be a prefix without a gap, payload by
payload.

| Kernel | Mode | Backend | Journal | Power cuts during appends | During recovery | Appends | Records promised, over all starts | Records read back at the end | Promised and lost | Gaps, wrong payloads | Not promised, gone |
|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, row := range r.Cuts {
		s := row.Store
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d |\n",
			row.Kernel, s.Mode, s.Backend, journalText(s), row.Cuts, row.RecoveryCuts, row.Appends, row.Promised, row.Records, lost(row.Findings), wrong(row.Findings), row.LetGo)
	}
}

// journalText is the column of the journal. A store that lies is written under none, where
// there is no journal; a replay lies in another way.
func journalText(s workload.Store) string {
	if s.Lie && s.Journal == "require" {
		return "off: required, but the lie writes under none"
	}
	return s.Journal
}

// momentsText says where the moments lie.
func (r ReplayResult) momentsText() string {
	if r.Rows[0].Store.Lie {
		return "spread evenly over the operations from the first acknowledgement on, since there are no flushes to\nchoose by,"
	}
	return "just before and just after a flush,"
}

func (r ReplayResult) markdown(b *strings.Builder) {
	if len(r.Rows) == 0 {
		return
	}
	fmt.Fprintf(b, `
With `+"`on_commit`"+` alone, the program runs once over a disk that logs its writes (%d operations, %d flushes, %d with
forced unit access). At %d moments, %s images are built of
what the disk may hold: with its cache kept, lost, or kept in part, down to sectors. %d
writes were in the cache, summed up over the images, and %d of them left out, wholly or in
part. The acknowledgements are in the same log, in front of the moment. A guest recovers
each image and reads everything back.

| Kernel | Mode | Backend | Journal | Images: cache kept | lost | in part | Records promised, over all images | Records read back | Promised and lost | Gaps, wrong payloads |
|---|---|---|---|---|---|---|---|---|---|---|
`, r.Operations, r.Flushes, r.FUA, r.Moments, r.momentsText(), r.Unsafe, r.Dropped)
	for _, row := range r.Rows {
		s := row.Store
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %d | %d | %d | %d | %d | %d |\n", row.Kernel, s.Mode, s.Backend, s.Journal,
			row.Images[blocklog.Kept], row.Images[blocklog.Lost], row.Images[blocklog.Some], row.Promised, row.Records, lost(row.Findings), wrong(row.Findings))
	}
}
