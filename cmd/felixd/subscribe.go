package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"felix.local/felix/broker"
)

type subscribeCommand struct {
	Stream     string `arg:"" help:"tenant/namespace/stream"`
	Shard      *int   `name:"shard" placeholder:"N" help:"the shard; it need not be named where there is only one"`
	From       string `name:"from" default:"latest" placeholder:"earliest|latest|OFFSET|@TIME" help:"where to begin: TIME is RFC 3339, or microseconds since 1970"`
	Count      uint64 `name:"count" default:"0" placeholder:"N" help:"end after this many records; 0 goes on until interrupted"`
	ResumeFile string `name:"resume-file" type:"path" placeholder:"FILE" help:"remember in this file, durably, how far was printed, and go on there when started again"`
	WhenFull   string `name:"when-full" enum:"disk,block" default:"disk" placeholder:"disk|block" help:"when this client is slow: disk reads on from disk, block holds publishers back"`
	clientFlags
	outputFlags
}

// feedRecord is one record.
type feedRecord struct {
	Shard           int              `json:"shard"`
	Offset          uint64           `json:"offset"`
	TimestampMicros uint64           `json:"timestamp_micros"`
	Text            *string          `json:"text,omitempty"`
	Base64          []byte           `json:"base64,omitempty"`
	Key             *string          `json:"key,omitempty"`
	KeyBase64       []byte           `json:"key_base64,omitempty"`
	Headers         []headerDocument `json:"headers,omitempty"`
}

type headerDocument struct {
	Key       *string `json:"key,omitempty"`
	KeyBase64 []byte  `json:"key_base64,omitempty"`
	Text      *string `json:"text,omitempty"`
	Base64    []byte  `json:"base64,omitempty"`
}

func (feedRecord) kind() string { return "record" }

func (e feedRecord) text() string {
	s := strconv.FormatUint(e.Offset, 10) + ": "
	if key := shownBytes(e.Key, e.KeyBase64); key != "" {
		s += key + " = "
	}
	return s + shownBytes(e.Text, e.Base64)
}

// payload is the record's value.
func (e feedRecord) payload() []byte {
	if e.Text != nil {
		return []byte(*e.Text)
	}
	return e.Base64
}

// shownBytes shows text as it is and anything else quoted.
func shownBytes(text *string, other []byte) string {
	switch {
	case text != nil && strings.ContainsFunc(*text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return strconv.Quote(*text) // control characters are not for a terminal
	case text != nil:
		return *text
	case other != nil:
		return strconv.QuoteToASCII(string(other))
	default:
		return ""
	}
}

// missedEvent says that an in-memory stream dropped records, as this client was too
// slow for them.
type missedEvent struct {
	Shard int    `json:"shard"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

func (missedEvent) kind() string { return "missed" }

func (e missedEvent) text() string { return fmt.Sprintf("missed offsets %d to %d", e.First, e.Last) }

// errEnough ends a subscription that has what it was to get.
var errEnough = errors.New("enough")

// Run prints records until it is interrupted.
func (c *subscribeCommand) Run(a *app) error {
	name, err := broker.ParseName(c.Stream)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	// Without a shard named the server takes the only one, or refuses.
	shard := 0
	if c.Shard != nil {
		shard = *c.Shard
	}
	resume := resumeFile{c.ResumeFile}
	point, err := resume.load(name, shard)
	if err != nil {
		return err
	}
	p := &printer{out: a.output(c.outputFlags), resume: resume, point: resumePoint{Stream: name.String(), Shard: shard}, left: c.Count, endless: c.Count == 0}
	s := &subscription{client: server, name: name, shard: c.Shard, from: c.From, whenFull: c.WhenFull, warn: func(text string) {
		fmt.Fprintln(a.stderr, "felixd:", text)
	}}
	if point != nil {
		s.start = &point.NextOffset
	}
	err = s.run(a.ctx, p)
	if errors.Is(err, errEnough) || a.ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, p.pause())
}

// checkpointRecords is how many records may be printed between two checkpoints.
const checkpointRecords = 1000

// printer prints records and remembers how far it is.
type printer struct {
	out     *output
	resume  resumeFile
	point   resumePoint
	unsaved int
	left    uint64
	endless bool
}

// record prints one record.
func (p *printer) record(r feedRecord) error {
	if err := p.out.emit(r); err != nil {
		return err
	}
	return p.passed(r.Offset, 1)
}

// missed prints a gap.
func (p *printer) missed(e missedEvent) error {
	if err := p.out.emit(e); err != nil {
		return err
	}
	return p.passed(e.Last, 0)
}

// started remembers where a subscription begins that has no record yet: whoever
// starts it again with --from latest must not miss what came meanwhile.
func (p *printer) started(offset uint64) error {
	p.point.NextOffset = offset
	return p.resume.save(p.point)
}

func (p *printer) passed(offset, records uint64) error {
	p.point.NextOffset = offset + 1
	p.unsaved++
	if p.unsaved >= checkpointRecords {
		if err := p.pause(); err != nil {
			return err
		}
	}
	if p.left -= min(p.left, records); p.left == 0 && !p.endless {
		return errEnough
	}
	return nil
}

// pause saves what was printed; it is called when nothing more has arrived.
func (p *printer) pause() error {
	if p.unsaved == 0 {
		return nil
	}
	p.unsaved = 0
	return p.resume.save(p.point)
}
