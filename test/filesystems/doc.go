// Package filesystems holds tests of the engine on real filesystems: ext4 in three
// forms, XFS and btrfs on loop devices, tmpfs, and overlayfs with its upper layer on
// ext4. It exports nothing.
//
//	go test -v ./test/filesystems
//
// Root is needed for mounts, and mkfs programs for what is mounted; without them the
// subtests skip and say what is missing, and the directory for temporary files is
// tested alone. FELIX_FS_REPORT names a file that gets the tables, FELIX_LONG_TESTS=1
// makes more power cuts.
//
// Every store runs in a process of its own, which tells this one what was
// acknowledged: it can be killed, run as another user, and hang without taking the
// test along. The tests run in a mount namespace of their own, so whatever ends them
// ends their mounts too.
package filesystems
