package seccomptest

import "golang.org/x/sys/unix"

const (
	architectureName = "SCMP_ARCH_AARCH64"
	architecture     = unix.AUDIT_ARCH_AARCH64
	numberMax        = 0x7fffffff
)

// ownNumbers are calls that other architectures do not have.
func ownNumbers() map[string]uint32 { return nil }
