package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"slices"
	"time"

	"felix.local/felix/engine"
)

// definition is a stream as its file says it, in JSON. Absent fields take the
// server's settings at each start.
type definition struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Stream    string `json:"stream"`
	Durable   bool   `json:"durable"`
	Shards    int    `json:"shards"`
	Format    string `json:"format"`
	Fsync     string `json:"fsync,omitempty"`
	// RetentionBytes is per shard; RetentionMicros is an age. 0 keeps all.
	RetentionBytes  *int64 `json:"retention_bytes,omitempty"`
	RetentionMicros *int64 `json:"retention_micros,omitempty"`
	// Floors are the oldest offsets that deletions of records left, by shard.
	Floors []uint64 `json:"floors,omitempty"`
	// Incarnation tells the directories of a durable stream from those of one that had
	// its name before.
	Incarnation uint64 `json:"incarnation,omitempty"`
	// Deleting: the stream is gone, its shards may not be yet.
	Deleting        bool   `json:"deleting,omitempty"`
	CreatedAtMicros uint64 `json:"created_at_micros"`
}

// definitionFile is what the file holds: the definition and its checksum, so that
// rot is not taken for another setting.
type definitionFile struct {
	Version    int             `json:"version"`
	Definition json.RawMessage `json:"definition"`
	// CRC32C is over the bytes of Definition, in hexadecimal.
	CRC32C string `json:"crc32c"`
}

const (
	definitionVersion = 1
	// definitionBytesMax bounds what is read of a file: 1024 shards' floors take 22 KiB.
	definitionBytesMax = 1 << 20
)

func checksum(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func (d definition) encode() ([]byte, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	file, err := json.Marshal(definitionFile{Version: definitionVersion, Definition: body, CRC32C: checksum(body)})
	return append(file, '\n'), err
}

// decodeDefinition reads a file and holds it to the rules of a new stream. Only
// what encode would write is read: JSON is lenient about what lies around the
// checksum and about fields it does not know, and would read some rot and some
// settings of another build as if they were not there.
func decodeDefinition(b []byte) (definition, error) {
	var (
		file definitionFile
		d    definition
	)
	if err := json.Unmarshal(b, &file); err != nil {
		return d, err
	}
	if file.Version != definitionVersion {
		return d, fmt.Errorf("version %d; this build reads %d", file.Version, definitionVersion)
	}
	if found := checksum(file.Definition); found != file.CRC32C {
		return d, fmt.Errorf("the checksum says %q, its bytes have %q", file.CRC32C, found)
	}
	if err := json.Unmarshal(file.Definition, &d); err != nil {
		return d, err
	}
	if err := d.validate(); err != nil {
		return d, err
	}
	if written, err := d.encode(); err != nil || !bytes.Equal(written, b) {
		return d, errors.Join(err, errors.New("it is not as this build writes it: damaged, edited, or from another build"))
	}
	return d, nil
}

func (d definition) validate() error {
	errs := []error{d.name().Validate()}
	if d.Shards < 1 || len(d.Floors) > d.Shards {
		errs = append(errs, fmt.Errorf("%d shards with %d floors", d.Shards, len(d.Floors)))
	}
	if _, err := ParseFormat(d.Format); err != nil {
		errs = append(errs, err)
	}
	if d.Fsync != "" {
		_, err := engine.ParseFsyncMode(d.Fsync)
		errs = append(errs, err)
	}
	for _, bound := range []*int64{d.RetentionBytes, d.RetentionMicros} {
		if bound != nil && *bound < 0 {
			errs = append(errs, fmt.Errorf("a retention of %d", *bound))
		}
	}
	return errors.Join(errs...)
}

func (d definition) name() StreamName {
	return StreamName{Tenant: d.Tenant, Namespace: d.Namespace, Stream: d.Stream}
}

func (d definition) floor(shard int) uint64 {
	if shard < len(d.Floors) {
		return d.Floors[shard]
	}
	return 0
}

// withFloor is d with another floor; d itself stays as it is.
func (d definition) withFloor(shard int, offset uint64) definition {
	floors := slices.Clone(d.Floors)
	for len(floors) <= shard {
		floors = append(floors, 0)
	}
	floors[shard] = offset
	d.Floors = floors
	return d
}

// define writes cfg as a definition.
func define(name StreamName, cfg StreamConfig, nowMicros uint64) definition {
	d := definition{
		Tenant: name.Tenant, Namespace: name.Namespace, Stream: name.Stream,
		Durable: cfg.Durable, Shards: max(1, cfg.Shards), Format: cfg.Format.String(), CreatedAtMicros: nowMicros,
	}
	if cfg.Fsync != nil {
		d.Fsync = cfg.Fsync.String()
	}
	d.setRetention(cfg)
	return d
}

// setRetention takes over the bounds that cfg names.
func (d *definition) setRetention(cfg StreamConfig) {
	if cfg.RetentionBytes != nil {
		d.RetentionBytes = cfg.RetentionBytes
	}
	if cfg.RetentionAge != nil {
		micros := cfg.RetentionAge.Microseconds()
		d.RetentionMicros = &micros
	}
}

// retention is what bounds a shard; 0 keeps all.
type retention struct {
	bytes int64
	age   time.Duration
}

// retention gives the bounds in effect, the server's where there are none.
func (d definition) retention(server engine.Config) retention {
	r := retention{bytes: server.RetentionBytes, age: server.RetentionAge}
	if d.RetentionBytes != nil {
		r.bytes = *d.RetentionBytes
	}
	if d.RetentionMicros != nil {
		r.age = time.Duration(*d.RetentionMicros) * time.Microsecond
	}
	return r
}

// fsync gives the mode in effect, the server's where there is none.
func (d definition) fsync(server engine.Config) engine.FsyncMode {
	if mode, err := engine.ParseFsyncMode(d.Fsync); d.Fsync != "" && err == nil {
		return mode
	}
	return server.FsyncMode
}

// fileName is the file of a definition: a readable rendering, which may be cut, and
// a hash of the exact name.
func fileName(n StreamName) string {
	h := fnv.New64a()
	readable := ""
	for _, part := range []string{n.Tenant, n.Namespace, n.Stream} {
		fmt.Fprintf(h, "%016x%s", len(part), part)
		readable += part[:min(len(part), 32)] + "_"
	}
	return fmt.Sprintf("%s%016x%s", readable, h.Sum64(), definitionSuffix)
}

const (
	definitionSuffix = ".json"
	temporarySuffix  = ".tmp"
)
