package sidecar

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"felix.local/felix/device"
)

// FileBytesMax is how much is read of any file of this package but epochs. It is
// more than each of them has, so that a longer one of a later version is told
// apart by its version.
const FileBytesMax = 4096

// Read reads a file of at most max bytes in dir whole. It gives nil when there is
// none, and an empty slice when it is empty. A longer one is a *DecodeError of
// class ErrSize, and nothing is read of it. Every error names the path.
func Read(disk device.FS, dir, name string, max int) ([]byte, error) {
	path := filepath.Join(dir, name)
	file, err := disk.OpenFile(path, device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := readAll(file, name, path, max)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return b, nil
}

func readAll(file device.File, name, path string, max int) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size > int64(max) {
		return nil, &DecodeError{File: name, Path: path, Problem: ErrSize, Found: uint64(size), Want: uint64(max)}
	}
	b := make([]byte, size)
	if n, err := file.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("%s: reading byte %d of %d: %w", path, n, len(b), errors.Join(err, io.ErrUnexpectedEOF))
	}
	return b, nil
}

// load reads and decodes a file. It gives nil when there is none.
func load[T any](disk device.FS, dir, name string, max int, decode func([]byte) (T, error)) (*T, error) {
	b, err := Read(disk, dir, name, max)
	if b == nil || err != nil {
		return nil, err
	}
	value, err := decode(b)
	if err == nil {
		return &value, nil
	}
	var undecoded *DecodeError
	if errors.As(err, &undecoded) {
		undecoded.Path = filepath.Join(dir, name)
	}
	return nil, err
}

// LoadEpochs reads a shard's history; nil when there is none. On a *DecodeError the
// caller goes on with an empty one and a warning.
func LoadEpochs(disk device.FS, dir string) (*Epochs, error) {
	return load(disk, dir, EpochsName, EpochsBytesMax, DecodeEpochs)
}

// LoadReplica reads a shard's replica; nil when there is none. Any error has to fail
// the open.
func LoadReplica(disk device.FS, dir string) (*Replica, error) {
	return load(disk, dir, ReplicaName, FileBytesMax, DecodeReplica)
}

// LoadBallot reads a shard's ballot; nil when there is none. Any error has to fail
// the open.
func LoadBallot(disk device.FS, dir string) (*Ballot, error) {
	return load(disk, dir, BallotName, FileBytesMax, DecodeBallot)
}

// LoadStorageID reads a root's id; nil when there is none.
func LoadStorageID(disk device.FS, root string) (*StorageID, error) {
	return load(disk, root, StorageIDName, FileBytesMax, DecodeStorageID)
}

// LoadRunState reads how a root's last run stands; nil when there is no file. On a
// *DecodeError the caller makes a new storage id.
func LoadRunState(disk device.FS, root string) (*RunState, error) {
	return load(disk, root, RunStateName, FileBytesMax, DecodeRunState)
}

// LoadRegistration reads a root's last registration; nil when there is none.
func LoadRegistration(disk device.FS, root string) (*Registration, error) {
	return load(disk, root, RegistrationName, FileBytesMax, DecodeRegistration)
}

// LoadNodeID reads a root's node id; "" when there is none.
func LoadNodeID(disk device.FS, root string) (NodeID, error) {
	id, err := load(disk, root, NodeIDName, FileBytesMax, DecodeNodeID)
	if id == nil {
		return "", err
	}
	return *id, nil
}

// LoadMarker reads a stream's marker in a root, by its MarkerName; nil when there
// is none. On a *DecodeError the stream is not served.
func LoadMarker(disk device.FS, root, name string) (*Marker, error) {
	return load(disk, filepath.Join(root, MarkersDir), name, FileBytesMax, DecodeMarker)
}
