package vm

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// packageOf says which Debian package brings a program.
var packageOf = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"mkfs.ext4":          "e2fsprogs",
	"e2fsck":             "e2fsprogs",
	"debugfs":            "e2fsprogs",
	"mkfs.xfs":           "xfsprogs",
	"depmod":             "kmod",
	"modprobe":           "kmod",
	"xz":                 "xz-utils",
	"dpkg-deb":           "dpkg",
	"apt-get":            "apt",
	"apt-cache":          "apt",
}

// MissingError names programs that are not on this host.
type MissingError struct{ Programs []string }

// Error says how to get them.
func (e *MissingError) Error() string {
	var packages []string
	for _, p := range e.Programs {
		name := packageOf[p]
		if name == "" {
			name = p
		}
		packages = append(packages, name)
	}
	slices.Sort(packages)
	return fmt.Sprintf("missing on this host: %s; apt-get install -y --no-install-recommends %s",
		strings.Join(e.Programs, ", "), strings.Join(slices.Compact(packages), " "))
}

// Need looks for programs; the error is a *MissingError.
func Need(programs ...string) error {
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return &MissingError{Programs: missing}
	}
	return nil
}
