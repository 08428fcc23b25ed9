package recovery

import "time"

// Open recovers the log in a shard directory, which is made when it is missing.
// Nothing may be read or appended before it returns. The caller holds the lock
// of the data root.
//
// A log that cannot be opened without losing what may have been acknowledged is
// refused with a *RefusedError, and every byte of its directory is as it was. With another error
// the Recovered, if there is one, reports what was changed before that, as Apply
// does.
func Open(disk Disk, dir, label string, p Policy) (*Recovered, error) {
	start := time.Now()
	if err := Settle(disk, dir, p); err != nil {
		return nil, err
	}
	snapshot, err := Inspect(disk.FS, dir, label, p)
	if err != nil {
		return nil, err
	}
	recovered, err := Apply(disk, Decide(snapshot, p))
	if recovered != nil {
		recovered.Report.Duration = time.Since(start)
	}
	return recovered, err
}
