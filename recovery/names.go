package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"felix.local/felix/segment"
)

const tornInfix = ".torn-"

// sidecarNames are files of the layers above that live in a shard directory.
// They are known here so that they do not count as foreign; what they say, but for
// offload.manifest, is their owners' business.
func sidecarNames() []string {
	return []string{"epochs", "replica", "ballot", "producers", "offload.manifest", "keys.idx"}
}

// temporaryNames are what the owners of sidecars write before they rename. One
// left by a crash is never read.
func temporaryNames() []string {
	return []string{"epochs.tmp", "replica.tmp", "ballot.tmp", "producers.tmp", "offload.tmp", "keys.idx.tmp"}
}

// NameError refuses a directory entry that has a name of ours and cannot be what
// the name promises.
type NameError struct {
	Path string
	// Problem says what is wrong with it.
	Problem string
}

// Error names the path and what to do.
func (e *NameError) Error() string {
	return fmt.Sprintf("%s: %s; move it out of the directory and open again", e.Path, e.Problem)
}

// hasSegmentShape reports whether name is 20 digits and one of our extensions,
// whether or not the number fits an id.
func hasSegmentShape(name string) bool {
	digits, extension, _ := strings.Cut(name, ".")
	return (extension == "log" || extension == "index") && len(digits) == len("18446744073709551615") && allDigits(digits)
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// sideCopy is a file that holds what recovery cut off or set aside.
type sideCopy struct {
	name    string
	segment uint64
	micros  uint64
}

func sideCopyName(id, micros uint64) string {
	return segment.LogName(id) + tornInfix + strconv.FormatUint(micros, 10)
}

func parseSideCopyName(name string) (sideCopy, bool) {
	log, stamp, found := strings.Cut(name, tornInfix)
	id, ok := segment.ParseLogName(log)
	if !found || !ok || !allDigits(stamp) {
		return sideCopy{}, false
	}
	micros, err := strconv.ParseUint(stamp, 10, 64)
	return sideCopy{name: name, segment: id, micros: micros}, err == nil
}

// oldestSideCopies gives the names to remove so that the newest kept remain. Age
// is the time in the name: restoring a directory does not change it.
func oldestSideCopies(names []string, kept int) []string {
	if len(names) <= kept {
		return nil
	}
	copies := make([]sideCopy, 0, len(names))
	for _, name := range names {
		if c, ok := parseSideCopyName(name); ok {
			copies = append(copies, c)
		}
	}
	slices.SortFunc(copies, func(a, b sideCopy) int {
		return cmp.Or(cmp.Compare(a.micros, b.micros), cmp.Compare(a.name, b.name))
	})
	var oldest []string
	for i := 0; i < len(copies)-kept; i++ {
		oldest = append(oldest, copies[i].name)
	}
	return oldest
}
