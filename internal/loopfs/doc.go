// Package loopfs makes filesystems in files and mounts them through loop devices, for
// tests and benchmarks that root runs.
//
// It owns the image, the loop device and the mount point, and gives them back when the
// test ends, failed or not. The loop device frees itself when its filesystem is
// unmounted (LO_FLAGS_AUTOCLEAR), so what a killed process leaves is a mount and
// nothing else. It knows nothing of what is written there.
//
// Where something is missing (root, the mkfs program, the loop driver, the filesystem
// in the kernel) the test is skipped with the reason.
package loopfs
