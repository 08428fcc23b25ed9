package enumerate

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// Failure is a state that did not pass, or a workload that failed on a disk that
// is well.
type Failure struct {
	Case    Case
	Verdict Verdict
	// Change is where the power went.
	Change string
	Cause  error
	// Files describe what the power loss left.
	Files string
}

// Error says what happened, what the power loss left and how to see it again.
func (f Failure) Error() string {
	if f.Change == "" {
		return fmt.Sprintf("%v: %v\n%s", f.Case, f.Cause, f.again())
	}
	return fmt.Sprintf("%v: %v, power lost %s: %v\nwhich left\n%s%s",
		f.Verdict, f.Case, f.Change, f.Cause, f.Files, f.again())
}

// again says how to see a failure once more: the command has the bound that
// options have by default.
func (f Failure) again() string {
	return fmt.Sprintf("again: go run ./internal/prove -case %s (under another bound: Options.Only)", f.Case)
}

// Unwrap gives the cause.
func (f Failure) Unwrap() error { return f.Cause }

// listing describes the files of the log.
func listing(disk *simdisk.Disk) string {
	var text strings.Builder
	entries, err := disk.ReadDir(shardDir())
	if err != nil {
		return fmt.Sprintf("  %v\n", err)
	}
	for _, e := range entries {
		b, err := simdisk.ReadFile(disk, filepath.Join(shardDir(), e.Name))
		if err != nil {
			fmt.Fprintf(&text, "  %s: %v\n", e.Name, err)
			continue
		}
		fmt.Fprintf(&text, "  %s: %d bytes%s\n", e.Name, len(b), describe(e.Name, b))
	}
	return text.String()
}

// describe says what a file of the log holds.
func describe(name string, b []byte) string {
	if _, ok := segment.ParseLogName(name); ok {
		scan, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{})
		if err != nil {
			return fmt.Sprintf(", %v", err)
		}
		s := fmt.Sprintf(", offsets %d to %d, intact to %d", scan.Header.BaseOffset, scan.NextOffset, scan.ValidEnd)
		if scan.Damage != nil {
			s += fmt.Sprintf(", %v, %d intact after", scan.Damage.Cause, scan.Damage.IntactAfter)
		}
		return s
	}
	if mark, ok := recovery.DecodeMark(b); ok && name == recovery.MarkName {
		return fmt.Sprintf(", %+v", mark)
	}
	return ""
}
