package sidecar

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"
)

// renderedMax is how many characters of a component its rendering keeps.
const renderedMax = 32

// MarkerName is the name of a stream's marker in MarkersDir: a readable rendering
// of its names, and a hash of them, which tells streams apart. It holds no dot.
// Below the root of caches, stream is the cache's name.
func MarkerName(tenant, namespace, stream string) string {
	hash := fnv.New64a()
	var b strings.Builder
	for i, part := range []string{tenant, namespace, stream} {
		if i > 0 {
			b.WriteByte('_')
		}
		Render(&b, part)
		// Each behind its length, so that ("a","bc") and ("ab","c") differ.
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	fmt.Fprintf(&b, "-%016x", hash.Sum64())
	return b.String()
}

// Render writes one character per character of s, at most 32: letters, digits
// and '-' as they are, anything else as '_', and '_' for nothing. The names of
// shards' directories are made of it too.
func Render(b *strings.Builder, s string) {
	if s == "" {
		b.WriteByte('_')
		return
	}
	n := 0
	for _, r := range s {
		if n == renderedMax {
			return
		}
		n++
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
}
