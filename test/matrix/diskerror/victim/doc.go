// Package victim is the program whose disk begins to fail: it appends, tells where its
// next bytes will go, waits until the disk fails there, and reports what the appends
// answer then, and what was asked of the disk afterwards.
//
// The disk below it is real; the recorder of package faultdisk stands between it and the
// engine and injects nothing. The package judges nothing: package diskerror does, outside
// of the machine.
package victim
