package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

// Backend says how a store reaches its disk, and why that way.
type Backend struct {
	// Name is "ring" or "pool"; Driver names the ring driver compiled in.
	Name, Driver string
	// Requested is the mode that was asked for.
	Requested IOURingMode
	// Reason says why this backend was taken, Remedy what to change to get the
	// ring, or all of it. Remedy is empty when nothing is amiss.
	Reason, Remedy string
	// Errno is the kernel's answer behind Reason, or nil.
	Errno error
	// Kernel and Filesystem are what was found.
	Kernel, Filesystem string
	// DsyncWrite: one call can write and make durable. Without it a write is
	// followed by a flush.
	DsyncWrite bool
	// DirectOverwrite: the filesystem overwrites written blocks in place, past the
	// page cache. DirectReason says why not.
	DirectOverwrite bool
	DirectReason    string
	// Ring describes the ring; nil for the pool.
	Ring *uring.Info
}

// String is the backend with its driver, and the reason.
func (b Backend) String() string {
	name := b.Name
	if b.Driver != "" {
		name += "/" + b.Driver
	}
	if b.Reason == "" {
		return name
	}
	return name + ": " + b.Reason
}

// LogValue puts everything a reader of the log needs into one line.
func (b Backend) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("name", b.Name), slog.String("requested", b.Requested.String()), slog.String("reason", b.Reason),
		slog.String("kernel", b.Kernel), slog.String("filesystem", b.Filesystem),
		slog.Bool("dsync_write", b.DsyncWrite), slog.Bool("direct_overwrite", b.DirectOverwrite),
	}
	if b.Remedy != "" {
		attrs = append(attrs, slog.String("remedy", b.Remedy))
	}
	if b.Ring != nil {
		attrs = append(attrs, slog.String("ring", b.Ring.String()))
	}
	return slog.GroupValue(attrs...)
}

// log writes the line that a start says the backend with.
func (b Backend) log(ctx context.Context, logger *slog.Logger, root string) {
	level := slog.LevelInfo
	if b.Requested != IOURingOff && (b.Name == "pool" || b.Remedy != "") {
		level = slog.LevelWarn // the ring was wanted and cannot be had, or not all of it
	}
	logger.Log(ctx, level, "storage backend chosen", "root", root, "backend", b)
}

// BackendError refuses to open a store: the ring is required and cannot be had.
type BackendError struct {
	Root           string
	Reason, Remedy string
	Err            error
}

// Error says why there is no ring and what to change.
func (e *BackendError) Error() string {
	text := fmt.Sprintf("%s: io_uring is required, but %s", e.Root, e.Reason)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap gives the cause.
func (e *BackendError) Unwrap() error { return e.Err }

// backendOptions size the backends, at most: a limit on threads gives fewer workers.
// The zero value is the defaults on the running system.
type backendOptions struct {
	RingEntries, RingWorkersMax, PoolWorkers int
	system                                   backendSystem
}

func (o backendOptions) withDefaults() backendOptions {
	if o.RingWorkersMax == 0 {
		o.RingWorkersMax = DefaultRingWorkersMax
	}
	if o.PoolWorkers == 0 {
		o.PoolWorkers = DefaultPoolWorkers
	}
	o.system = o.system.withDefaults()
	return o
}

// ringQueue is a ring as selection sees it.
type ringQueue interface {
	device.Queue
	Info() uring.Info
}

// refusal is why the ring is not taken.
type refusal struct {
	reason, remedy string
	err            error
}

// selectBackend chooses once, by doing: it opens a ring and carries real
// operations on a temporary file in root. Whatever fails gives the pool, which
// puts the same bytes on the disk, or an error when the ring is required. What
// the filesystem cannot do is found out on the way and refuses nothing.
func selectBackend(fs device.FS, root string, mode IOURingMode, o backendOptions) (device.Queue, Backend, error) {
	o = o.withDefaults()
	kernel, threads := o.system.kernel(), o.system.threads()
	b := Backend{Requested: mode, Kernel: kernel.String(), Filesystem: "unknown"}
	if space, err := fs.Space(root); err == nil {
		b.Filesystem = space.Type
	}
	p := prover{fs: fs, root: root, filesystem: b.Filesystem}

	var why refusal
	switch denied := denial(b.Filesystem, kernel); {
	case mode == IOURingOff:
		why = refusal{reason: "io_uring is turned off by the configuration"}
	case denied.reason != "" && mode != IOURingRequire:
		why = denied
	case threads.ringWorkers(o.RingWorkersMax) == 0 && mode != IOURingRequire:
		why = refusal{reason: "the limit of threads leaves no room for the kernel's workers", remedy: raiseThreads(threads, o.RingWorkersMax)}
	default:
		ring, found, refused := tryRing(&p, mode, o)
		if refused == nil {
			info := ring.Info()
			b.Name, b.Driver, b.Ring = "ring", info.Driver, &info
			b.Reason = "real operations in the data directory succeeded"
			if found.incomplete != "" {
				b.Reason = found.incomplete
			}
			if but := unbounded(info); but.reason != "" {
				b.Reason, b.Remedy = b.Reason+"; but "+but.reason, but.remedy
			}
			b.learn(found)
			return ring, b, nil
		}
		why = *refused
	}
	if mode == IOURingRequire {
		return nil, b, &BackendError{Root: root, Reason: why.reason, Remedy: why.remedy, Err: why.err}
	}

	pool := fallback.Open(fallback.Options{Workers: threads.poolWorkers(o.PoolWorkers)})
	b.Name, b.Reason, b.Remedy = "pool", why.reason, why.remedy
	if errno := syscall.Errno(0); errors.As(why.err, &errno) {
		b.Errno = errno
	}
	// A disk that fails here fails again where it matters, with a better place
	// to say so; until then nothing is taken for granted about it.
	found, err := p.prove(pool)
	if err != nil {
		found = properties{directReason: "not found out: " + p.text(err)}
	}
	b.learn(found)
	return pool, b, nil
}

func (b *Backend) learn(p properties) {
	b.DsyncWrite, b.DirectOverwrite, b.DirectReason = p.dsync, p.direct, p.directReason
}

// tryRing opens a ring and proves it.
func tryRing(p *prover, mode IOURingMode, o backendOptions) (ringQueue, properties, *refusal) {
	threads := o.system.threads()
	workers := max(1, threads.ringWorkers(o.RingWorkersMax))
	ring, err := o.system.openRing(uring.Options{Entries: o.RingEntries, Workers: workers})
	if err != nil {
		return nil, properties{}, &refusal{reason: err.Error(), remedy: remedy(err, o), err: err}
	}
	info := ring.Info()
	own := o.system.kernelWorkers(info.Entries)
	if why := unbounded(info); why.reason != "" && threads.ringWorkers(own) < own && mode != IOURingRequire {
		why.reason += ", and the limit of threads leaves no room for them"
		_ = ring.Close() // never used
		return nil, properties{}, &why
	}
	found, err := p.prove(ring)
	if err == nil {
		return ring, found, nil
	}
	why := &refusal{reason: p.whyUnusable(err), remedy: remedy(err, o), err: err}
	// A ring that broke cannot be released and says so again; nothing but the
	// temporary file was ever in its hands.
	_ = ring.Close()
	return nil, properties{}, why
}

// whyUnusable words a proof that failed. A ring that breaks in use asks for a new
// process; one that was only tried out is replaced by the pool, so of its error the
// call and the kernel's answer are what matters.
func (p *prover) whyUnusable(err error) string {
	var lost *uring.LostError
	if errors.As(err, &lost) {
		return fmt.Sprintf("io_uring can be set up but not used: %s: %v", lost.Call, lost.Cause)
	}
	return "io_uring can be set up but not used: " + p.text(err)
}
