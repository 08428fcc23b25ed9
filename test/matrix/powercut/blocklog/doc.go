// Package blocklog reads the log of a disk's writes that qemu's blklogwrites makes, and
// builds from it what the disk may hold after power went out at any moment.
//
// The format is that of Linux's dm-log-writes: a sector with a magic number, then per
// operation a sector that says where and how much, and behind it the data. All numbers
// are little endian.
//
// # What a disk may hold
//
// A write is safe once a flush ended that began after it, or when it was written with
// forced unit access. Of the others the disk holds all (its cache was kept), none (it
// was lost), or any part, sector by sector.
//
// qemu logs an operation when it ends, not when it begins. A write that ended while a
// flush was under way stands before that flush and counts as safe, though a real disk
// promises nothing of it: of such a write the images are kinder than a disk may be.
//
// The package never writes to a log, and knows nothing of filesystems.
package blocklog
