package engine

import "felix.local/felix/sidecar"

// This engine neither copies segments to an object store nor reads copies. A
// directory may come from one that does, and go back to it: offload.manifest says
// which segments were copied, and is all that says so once retention has removed
// them here. It stays as it is, then, but for what the log takes back.

// dropCopies takes the copies that hold records from offset on out of
// offload.manifest, durably: others will take their offsets. A log without such
// copies writes nothing.
//
// It comes before any segment is touched. The other way round a power loss leaves a
// log that was cut and a manifest that still names what is gone, and the next build
// that offloads takes it for what the log holds there. The objects stay.
//
// The caller has the log, and the turn of its small files, to itself. A manifest that
// cannot be read, or not be replaced, is an error and changes nothing.
func (l *Log) dropCopies(offset uint64) error {
	manifest, err := sidecar.LoadOffload(l.store.fs, l.dir)
	if err != nil {
		return l.usable("read "+sidecar.OffloadName, err)
	}
	if manifest == nil || !manifest.TruncateFrom(offset) {
		return nil
	}
	return l.replaceFile(sidecar.OffloadName, manifest.AppendTo(nil))
}
