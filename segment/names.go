package segment

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	logSuffix   = ".log"
	indexSuffix = ".index"
	// idDigits is wide enough for every id, so that names sort as ids do.
	idDigits = 20
)

// LogName is the name of the file that holds the records of segment id.
func LogName(id uint64) string { return fmt.Sprintf("%0*d%s", idDigits, id, logSuffix) }

// IndexName is the name of the file that holds the index of segment id.
func IndexName(id uint64) string { return fmt.Sprintf("%0*d%s", idDigits, id, indexSuffix) }

// ParseLogName gives the id in the name of a segment file; ok is false for a
// name that LogName does not make.
func ParseLogName(name string) (id uint64, ok bool) { return parseName(name, logSuffix) }

// ParseIndexName gives the id in the name of an index file; ok is false for a
// name that IndexName does not make.
func ParseIndexName(name string) (id uint64, ok bool) { return parseName(name, indexSuffix) }

// parseName wants exactly 20 digits before the suffix. Twenty digits can name
// more than 64 bits hold; such a file is not ours.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != idDigits {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil
}
