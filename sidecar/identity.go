package sidecar

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

const (
	// StorageIDName is the file in a root.
	StorageIDName = "storage-id"
	// StorageIDBytes is its length as written.
	StorageIDBytes = 28
	// RegistrationName is the file in a root.
	RegistrationName = "registration"
	// RegistrationBytes is its length as written.
	RegistrationBytes = 20

	// reservedBytes stand behind the version in files as written; a packed file
	// is without them.
	reservedBytes = 2
)

func storageIDKind() kind    { return kind{StorageIDName, 0x464C4944, 1} }    // "FLID"
func registrationKind() kind { return kind{RegistrationName, 0x464C5247, 1} } // "FLRG"

// StorageID tells apart the lives of a data directory: a new one says that
// records acknowledged under the old one may be missing.
type StorageID [16]byte

// NewStorageID makes an id of 16 random bytes.
func NewStorageID(random io.Reader) (StorageID, error) {
	var id StorageID
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return StorageID{}, fmt.Errorf("making a storage id: reading random bytes: %w", err)
	}
	return id, nil
}

// String gives the id as 32 hexadecimal digits.
func (id StorageID) String() string { return hex.EncodeToString(id[:]) }

// AppendTo appends the 28 bytes of the file.
func (id StorageID) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = storageIDKind().appendHead(dst, 0)
	dst = append(dst, id[:]...)
	return appendChecksum(dst, start)
}

// DecodeStorageID reads an id, with or without the two reserved bytes. The error
// is a *DecodeError.
func DecodeStorageID(b []byte) (StorageID, error) {
	field, err := storageIDKind().field(b, StorageIDBytes)
	if err != nil {
		return StorageID{}, err
	}
	return StorageID(field), nil
}

// Registration holds what the control plane said at the last registration.
type Registration struct {
	// Incarnation is the node's. A control plane that is ahead of it proves that
	// the directory is older than the registration, such as a restored snapshot.
	Incarnation uint64 `json:"incarnation"`
}

// AppendTo appends the 20 bytes of the file.
func (r Registration) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = registrationKind().appendHead(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, r.Incarnation)
	return appendChecksum(dst, start)
}

// DecodeRegistration reads a registration, with or without the two reserved
// bytes. The error is a *DecodeError.
func DecodeRegistration(b []byte) (Registration, error) {
	field, err := registrationKind().field(b, RegistrationBytes)
	if err != nil {
		return Registration{}, err
	}
	return Registration{Incarnation: binary.BigEndian.Uint64(field)}, nil
}

// field checks a file of size bytes that holds one field behind two reserved
// bytes, or is without those, and gives the field. What is reserved may hold
// anything.
func (k kind) field(b []byte, size int) ([]byte, error) {
	if err := k.checkHead(b, size); err != nil {
		return nil, err
	}
	packed := size - reservedBytes
	from := kindBytes + reservedBytes
	if len(b) <= packed {
		size, from = packed, kindBytes
	}
	if err := k.checkWhole(b, size); err != nil {
		return nil, err
	}
	return b[from : size-crcBytes], nil
}
