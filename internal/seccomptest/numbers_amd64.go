package seccomptest

import "golang.org/x/sys/unix"

const (
	architectureName = "SCMP_ARCH_X86_64"
	architecture     = unix.AUDIT_ARCH_X86_64
	numberMax        = 0x3fffffff
)

// ownNumbers are calls that other architectures do not have.
func ownNumbers() map[string]uint32 {
	return map[string]uint32{"access": unix.SYS_ACCESS, "arch_prctl": unix.SYS_ARCH_PRCTL}
}
