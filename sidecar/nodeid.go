package sidecar

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

const (
	// NodeIDName is the file in a root.
	NodeIDName = "node-id"
	// NodeIDBytesMax is the longest id: it is one element of a path.
	NodeIDBytesMax = 255

	nodeIDLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)

// NodeID is the id that the keys of offloaded segments start with; "" is none.
type NodeID string

// NewNodeID makes a random UUID (version 4) without dashes, of 16 random bytes.
func NewNodeID(random io.Reader) (NodeID, error) {
	var id [16]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", fmt.Errorf("making a node id: reading random bytes: %w", err)
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return NodeID(hex.EncodeToString(id[:])), nil
}

// Check reports, as a *DecodeError, why an id is no safe path segment: 1 to 255
// ASCII letters, digits, '-', '_' and '.', the first no '.'.
func (id NodeID) Check() error {
	switch {
	case id == "":
		return contentError(NodeIDName, "the id is empty")
	case len(id) > NodeIDBytesMax:
		return contentError(NodeIDName, "an id of %d bytes, at most %d are allowed", len(id), NodeIDBytesMax)
	case id[0] == '.':
		return contentError(NodeIDName, "the id %q begins with a dot", string(id))
	case strings.Trim(string(id), nodeIDLetters) != "":
		return contentError(NodeIDName, "the id %q holds more than letters, digits, '-', '_' and '.'", string(id))
	}
	return nil
}

// AppendTo appends the bytes of the file.
func (id NodeID) AppendTo(dst []byte) []byte { return append(dst, id...) }

// DecodeNodeID reads an id, without the white space around it. A file with
// nothing else in it gives "": it counts as absent. The error is a *DecodeError.
func DecodeNodeID(b []byte) (NodeID, error) {
	if len(b) > FileBytesMax {
		return "", &DecodeError{File: NodeIDName, Problem: ErrSize, Found: uint64(len(b)), Want: FileBytesMax}
	}
	id := NodeID(bytes.TrimSpace(b))
	if id == "" {
		return "", nil
	}
	if err := id.Check(); err != nil {
		return "", err
	}
	return id, nil
}
