package plan

// Written is what the guest program's workload prints: what it wrote, in figures that are
// the same wherever it runs.
type Written struct {
	// Backends are those that carried the workload, each once: "ring" or "pool".
	Backends []string `json:"backends"`
	// Digests are checksums of directories, by what they hold.
	Digests map[string]string `json:"digests"`
	// Missing says why a directory was not written: the filesystem cannot hold it.
	Missing map[string]string `json:"missing,omitempty"`
	// Files and Bytes are how much there is below the digests.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}
