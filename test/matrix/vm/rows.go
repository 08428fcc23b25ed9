package vm

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// Want is a kernel to be fetched: the newest package of a suite whose name matches.
type Want struct {
	// Row is what the table calls it.
	Row string
	// Suite is the archive's, such as bookworm-security.
	Suite string
	// Pattern is a regular expression that the whole name of the package matches.
	Pattern string
}

// names says whether a package is one of those wanted. The error is that of a pattern.
func (w Want) names(name string) (bool, error) {
	return regexp.MatchString(`^(?:`+w.Pattern+`)$`, name)
}

// Rows are the kernels of the table, oldest first. All are of the flavour for virtual
// machines: it is a third of the size and has the drivers for NVMe, ext4 and the serial
// ports built in.
//
// From 6.19 on a package holds the kernel alone, without modules.
func Rows() []Want {
	return []Want{
		{"5.10", "bullseye", `linux-image-5\.10\.0-[0-9]+-cloud-amd64`},
		{"6.1", "bookworm-security", `linux-image-6\.1\.0-[0-9]+-cloud-amd64`},
		{"6.12", "bookworm-security", `linux-image-6\.12\.[0-9]+\+deb12-cloud-amd64`},
		{"6.18", "trixie-backports", `linux-image-6\.18\.[0-9]+\+deb13-cloud-amd64`},
		{"7.0", "trixie-backports", `linux-binary-7\.0\.[0-9]+\+deb13-cloud-amd64`},
		{"7.x", "trixie-backports", `linux-binary-7\.[0-9]+\.[0-9]+\+deb13-cloud-amd64`},
	}
}

// compareVersions orders names as their versions: runs of digits count as numbers.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		textA, numberA, restA := splitVersion(a)
		textB, numberB, restB := splitVersion(b)
		if c := cmp.Or(cmp.Compare(textA, textB), cmp.Compare(numberA, numberB)); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// splitVersion takes the text up to the first number off a name, and that number.
func splitVersion(s string) (text string, number uint64, rest string) {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	start := strings.IndexFunc(s, isDigit)
	if start < 0 {
		return s, 0, ""
	}
	end := len(s)
	if n := strings.IndexFunc(s[start:], func(r rune) bool { return !isDigit(r) }); n >= 0 {
		end = start + n
	}
	number, _ = strconv.ParseUint(s[start:end], 10, 64) // digits; too many of them count as the largest
	return s[:start], number, s[end:]
}
