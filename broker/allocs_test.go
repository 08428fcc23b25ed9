package broker

import "runtime"

// allocatedBytes is what f allocates, to what the runtime can tell.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	f() // what is made once is made
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
