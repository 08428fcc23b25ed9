package victim

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"felix.local/felix/test/matrix/powercut/workload"
)

// Fails says what of the disk fails.
type Fails string

// What fails.
const (
	// Write: where the next records go, in the segment or in the journal.
	Write Fails = "write"
	// Segment: where the journal's records go in their segment, later.
	Segment Fails = "segment"
	// Flush: every flush of the disk.
	Flush Fails = "flush"
)

// Spec says what the program does.
type Spec struct {
	// Root is the directory that holds the store.
	Root  string         `json:"root"`
	Store workload.Store `json:"store"`
	Fails Fails          `json:"fails"`
	// Disk and Mailbox are serial numbers: of the disk to be mounted on Root, and of one
	// that says ArmedText at MailPosition, in bytes, once the other fails.
	Disk         string `json:"disk"`
	Mailbox      string `json:"mailbox"`
	MailPosition int64  `json:"mail_position"`
}

// ArmedText is what the host writes to the mailbox.
const ArmedText = "the disk fails now"

// Read reads Specs, to be carried out one after the other, from a file.
func Read(path string) ([]Spec, error) {
	var s []Spec
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// Lines the program writes, beside events of package workload.
const (
	armWord    = "ARM "
	reportWord = "REPORT "
)

// Arm asks for a disk that fails: of Blocks, or of all flushes where there are none.
type Arm struct {
	// Blocks are of 4 KiB, counted from the beginning of the disk.
	Blocks []uint64 `json:"blocks"`
}

// Report is what came of it.
type Report struct {
	// Backend is the queue's own name.
	Backend string `json:"backend"`
	// Error is what the first append that failed answered, Errno the kernel's answer
	// in it, as a name; empty when no append failed.
	Error string `json:"error"`
	Errno string `json:"errno"`
	// Before are the appends that were acknowledged between the arming and the first
	// that failed: the disk need not fail at once.
	Before int `json:"before"`
	// Poisoned: the log whose append failed says so of itself, and Other the other log
	// of the store.
	Poisoned bool `json:"poisoned"`
	Other    bool `json:"other"`
	// Acknowledged counts appends to a poisoned log that were acknowledged, Refused
	// those that were refused as poisoned, Odd those that failed in another way.
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	Odd          int `json:"odd"`
	// File is the segment, or the file of the journal, whose operation failed first, and
	// Operation what that was. Again counts durable writes and flushes of such files
	// that were begun after one of that file failed, until the store was closed.
	File      string `json:"file"`
	Operation string `json:"operation"`
	Again     int    `json:"again"`
}

// ParseArm reads a line of the program; ok is false for any other.
func ParseArm(line string) (a Arm, ok bool) { return a, parse(line, armWord, &a) }

// ParseReport reads a line of the program; ok is false for any other.
func ParseReport(line string) (r Report, ok bool) { return r, parse(line, reportWord, &r) }

func parse(line, word string, to any) bool {
	text, ok := strings.CutPrefix(line, word)
	return ok && json.Unmarshal([]byte(text), to) == nil
}

func format(word string, what any) (string, error) {
	b, err := json.Marshal(what)
	return fmt.Sprintf("%s%s\n", word, b), err
}
