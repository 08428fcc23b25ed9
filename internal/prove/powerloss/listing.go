package powerloss

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// describeImage says what had to be there, and what was found.
func describeImage(i image, found host) string {
	var text strings.Builder
	for s, e := range i.expect {
		fmt.Fprintf(&text, "shard %d had to hold offsets from %d to %d on, up to %d, or %d after a power loss while it opened, of %d",
			s, e.baseMin, e.baseMax, e.held, e.durable, e.written)
		if e.emptied != nil {
			fmt.Fprintf(&text, ", or to be empty at %d", *e.emptied)
		}
		text.WriteByte('\n')
	}
	return text.String() + "the crash left\n" + listing(found, len(i.expect))
}

// listing describes the files of a host's shards.
func listing(h host, shards int) string {
	fs, queue, err := h.boot()
	if err != nil {
		return err.Error()
	}
	defer queue.Close()
	var text strings.Builder
	for shard := range shards {
		dir := filepath.Join(h.store(), shardKey(shard).DirName())
		entries, err := fs.ReadDir(dir)
		if err != nil {
			fmt.Fprintln(&text, err)
		}
		for _, e := range entries {
			fmt.Fprintf(&text, "%d/%s: %s\n", shard, e.Name, describeFile(fs, filepath.Join(dir, e.Name)))
		}
	}
	listJournal(&text, fs, filepath.Join(h.store(), journal.DirName))
	return text.String()
}

// listJournal describes the frames of a journal, where there is one.
func listJournal(text *strings.Builder, fs device.FS, dir string) {
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		b, err := simdisk.ReadFile(fs, filepath.Join(dir, e.Name))
		fmt.Fprintf(text, "%s: %d bytes, %v\n", e.Name, len(b), err)
		if e.Name == journal.CurrentName {
			current, err := journal.DecodeCurrent(b)
			fmt.Fprintf(text, "  %+v, %v\n", current, err)
		}
		for pos := 0; pos+journal.BlockBytes <= len(b); pos += journal.BlockBytes {
			h, list, err := journal.Decode(b[pos:])
			if h == (journal.Header{}) {
				continue
			}
			fmt.Fprintf(text, "  at %d: %+v, %v\n", pos, h, err)
			for _, one := range list {
				fmt.Fprintf(text, "    kind %d, %.8s, segment %d from %d at %d, offsets %d to %d\n", one.Kind, one.Shard, one.Segment, one.BaseOffset, one.Position, one.First, one.Last)
			}
		}
	}
}

func describeFile(fs device.FS, path string) string {
	b, err := simdisk.ReadFile(fs, path)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%d bytes", len(b))
	if mark, ok := recovery.DecodeMark(b); ok {
		text += fmt.Sprintf(", mark %+v", mark)
	}
	if !strings.HasSuffix(path, ".log") {
		return text
	}
	scan, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{})
	text += fmt.Sprintf(", offsets %d to %d, intact to %d", scan.Header.BaseOffset, scan.NextOffset, scan.ValidEnd)
	if err != nil {
		text += fmt.Sprintf(", %v", err)
	}
	if scan.Damage != nil {
		text += fmt.Sprintf(", %v, %d intact after", scan.Damage.Cause, scan.Damage.IntactAfter)
	}
	return text
}
