package engine

import (
	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

type Backend struct {
	Name, Driver, Reason, Remedy string
	Requested                    IOURingMode
	DsyncWrite, DirectOverwrite  bool
}
type backendOptions struct{ RingEntries, RingWorkersMax, PoolWorkers int }

func selectBackend(fs device.FS, root string, mode IOURingMode, o backendOptions) (device.Queue, Backend, error) {
	if mode != IOURingOff {
		r, err := uring.Open(uring.Options{Entries: o.RingEntries, Workers: o.RingWorkersMax})
		return r, Backend{Name: "ring", DsyncWrite: true}, err
	}
	return fallback.Open(fallback.Options{Workers: o.PoolWorkers}), Backend{Name: "pool", DsyncWrite: true}, nil
}
