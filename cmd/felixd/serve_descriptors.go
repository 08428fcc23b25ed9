package main

import (
	"golang.org/x/sys/unix"
)

const (
	// descriptorsReserved are kept for everything that is neither a connection nor a
	// segment: listeners, the ring, directories, profiles.
	descriptorsReserved = 128
	// descriptorsShared are the fewest that segments and connections are left with.
	descriptorsShared = 64
)

// shareDescriptors divides the process's limit on open files between segments and
// connections, where the settings do not say otherwise. Without that the one would
// be refused what the other has taken: a segment that cannot be opened refuses a
// publish, a connection that cannot be accepted waits. Segments get what the bounds on
// connections leave, and half at least; then the bounds on connections give way. The
// admin listener's few are kept apart: it is needed most when the others are full.
func (c *serverConfig) shareDescriptors(limit uint64) error {
	apart := descriptorsReserved
	if c.adminAddr != "" {
		apart += c.adminConnectionsMax
	}
	if needed := uint64(apart + descriptorsShared); limit < needed {
		return usage("the limit on open files is %d; at least %d are needed; raise it with ulimit -n or LimitNOFILE=", limit, needed)
	}
	room := int(min(limit, 1<<20)) - apart
	segments := c.broker.Engine.OpenFilesMax
	switch {
	case c.broker.Root == "":
		segments = 0
	case segments == 0:
		segments = max(room-c.httpConnectionsMax-c.kafkaConnectionsMax, room/2)
		c.broker.Engine.OpenFilesMax = segments
	}
	connections := max(room-segments, 2)
	asked := c.httpConnectionsMax + c.kafkaConnectionsMax
	if asked <= connections {
		return nil
	}
	c.httpConnectionsMax = max(1, int(int64(connections)*int64(c.httpConnectionsMax)/int64(asked)))
	c.kafkaConnectionsMax = max(1, connections-c.httpConnectionsMax)
	return nil
}

// descriptorLimit is the process's limit on open files.
func descriptorLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024 // what Linux gives a process that was given nothing else
	}
	return limit.Cur
}
