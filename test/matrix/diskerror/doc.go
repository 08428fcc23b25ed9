// Package diskerror has the disk of a virtual machine fail under Felix, and looks at what
// Felix promises then.
//
// A cell of the table is a disk, what of it fails (a write of the data, or every flush),
// a mode, a backend, and the commit journal or not. In a cell the guest program (package
// victim) appends for a while and tells which blocks of its disk the next records go to;
// the emulator is told to fail those, or all flushes; the program goes on until an append
// fails, insists, and reports. Then power is cut, and a machine with a disk that works
// reads back what is there.
//
// What has to hold: the append fails with the device's error, whatever number that has;
// the log is poisoned, and with the journal the store; nothing is acknowledged from then
// on; nothing of the file that failed is flushed or written durably again, since the
// kernel forgets a page whose write failed and calls the next flush a success; and every
// record that was promised before is found.
//
// The failing is qemu's (blkdebug), put under the running disk over its control socket.
package diskerror
