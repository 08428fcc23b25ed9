package golden

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bytes reads testdata/golden/<name>.hex of the package under test, which is hex digits,
// blanks, and comments that begin with '#', or, where there is none, <name>.txt as it is.
func Bytes(t testing.TB, name string) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	text, err := os.ReadFile(path + ".hex")
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = os.ReadFile(path + ".txt"); err != nil {
			t.Fatalf("neither %s.hex nor %s.txt can be read: %v", path, path, err)
		}
		return text
	}
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s.hex: %v", path, err)
	}
	return b
}
