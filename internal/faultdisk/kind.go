package faultdisk

import (
	"fmt"
	"math/bits"
	"strings"

	"felix.local/felix/device"
)

// Kinds is a set of operation kinds.
type Kinds uint32

// The kinds. The data path comes first, in the order of device.Kind.
const (
	Write Kinds = 1 << iota
	WriteDsync
	Flush    // fdatasync of a file
	FlushAll // fsync of a file
	Allocate
	FlushDir // either flush of a directory
	Create   // OpenFile that makes the file
	Open     // OpenFile of an existing file
	OpenDir
	Mkdir
	Rename // matched by either of its paths
	Remove
	Truncate
	DropCache
	Read
	ReadDir
	Lstat
	Lock
	Space
	endOfKinds
)

// Sets of kinds.
const (
	Writes  = Write | WriteDsync
	Flushes = Flush | FlushAll | FlushDir
	// Changes are all operations that change what is, or will be, on the disk.
	Changes = Writes | Flushes | Allocate | Create | Mkdir | Rename | Remove | Truncate
	All     = endOfKinds - 1
)

// names are what the wrapped disk calls the operations in its errors, but
// for FlushDir and Create, which it does not tell apart.
var names = [...]string{
	"write", "write_dsync", "flush", "flush_all", "allocate", "flush_dir", "create", "open", "open_dir",
	"mkdir", "rename", "remove", "truncate", "drop_cache", "read", "read_dir", "lstat", "lock", "space",
}

func (k Kinds) index() int { return bits.TrailingZeros32(uint32(k)) }

// String lists the kinds.
func (k Kinds) String() string {
	var list []string
	for i, name := range names {
		if k&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, "|")
}

// kindOf is the kind of a data-path op.
func kindOf(op *device.Op) Kinds {
	if f := ownFile(op.File); f != nil && f.dir && (op.Kind == device.Flush || op.Kind == device.FlushAll) {
		return FlushDir
	}
	if op.Kind >= device.KindCount {
		panic(fmt.Sprintf("faultdisk: %v is no operation", op.Kind))
	}
	return 1 << op.Kind
}
