// Package vm boots Debian kernels in an emulator: it fetches a kernel into a cache,
// makes a filesystem image in memory for it (an initramfs) and disks, starts the emulator
// and reads what the guest says.
//
// It owns the emulator's processes: each ends with its Guest, and nothing is installed on
// the host. It never judges what a guest did: it says whether the guest itself ended with
// 0, which only the guest's own last line shows, since an emulator ends with 0 after a
// panic too.
//
// The emulation is of the processor as well (no KVM), so it runs wherever Go does on
// Linux, three to twenty times slower. One host thread runs all processors of a guest: with
// several, the kernel's patching of its own code now and then crashes the guest in
// emulators before qemu 8.1.
package vm
