package diskerror

import (
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// monitor is the emulator's control socket.
type monitor struct {
	conn net.Conn
	in   *json.Decoder
}

// monitorTimeout bounds each answer of the emulator.
const monitorTimeout = 30 * time.Second

// dialMonitor connects and gets through the greeting.
func dialMonitor(path string) (*monitor, error) {
	conn, err := net.DialTimeout("unix", path, monitorTimeout)
	if err != nil {
		return nil, err
	}
	m := &monitor{conn: conn, in: json.NewDecoder(conn)}
	if err := m.hello(); err != nil {
		_ = conn.Close() // the first error is the one to tell
		return nil, err
	}
	return m, nil
}

func (m *monitor) hello() error {
	if err := m.conn.SetDeadline(time.Now().Add(monitorTimeout)); err != nil {
		return err
	}
	var greeting struct{ QMP *json.RawMessage }
	if err := m.in.Decode(&greeting); err != nil {
		return fmt.Errorf("the emulator's greeting: %w", err)
	}
	if greeting.QMP == nil {
		return fmt.Errorf("what answers is no emulator's control socket")
	}
	return m.execute("qmp_capabilities", nil)
}

// execute runs one command and waits for its answer; events in between are dropped.
func (m *monitor) execute(command string, arguments any) error {
	if err := m.conn.SetDeadline(time.Now().Add(monitorTimeout)); err != nil {
		return err
	}
	call := map[string]any{"execute": command}
	if arguments != nil {
		call["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(call); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		var answer struct {
			Return *json.RawMessage
			Error  *struct{ Class, Desc string }
			Event  string
		}
		if err := m.in.Decode(&answer); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("%s: %s: %s", command, answer.Error.Class, answer.Error.Desc)
		case answer.Return != nil:
			return nil
		}
	}
}

func (m *monitor) close() error { return m.conn.Close() }

// errnoEIO is the error that the image reports; what the guest's kernel makes of it
// differs by disk and kernel.
const errnoEIO = 5

const (
	sectorBytes = 512
	blockBytes  = 4096
)

// fault is a rule of blkdebug.
type fault struct {
	Event  string `json:"event"`
	IOType string `json:"iotype,omitempty"`
	Errno  int    `json:"errno"`
	Sector *int64 `json:"sector,omitempty"`
}

// faults are the rules by which writes to some blocks fail, or all flushes where there
// are none.
func faults(blocks []uint64) []fault {
	if len(blocks) == 0 {
		return []fault{{Event: "flush_to_disk", IOType: "flush", Errno: errnoEIO}}
	}
	var list []fault
	for _, b := range blocks {
		list = append(list, fault{Event: "write_aio", IOType: "write", Errno: errnoEIO, Sector: new(int64(b * (blockBytes / sectorBytes)))})
	}
	return list
}

// The names of the nodes between an image and its disk.
func nodeImage(i int) string  { return fmt.Sprintf("image%d", i) }
func nodeBroken(i int) string { return fmt.Sprintf("broken%d", i) }
func nodeDisk(i int) string   { return fmt.Sprintf("disk%d", i) }

// fail puts faults between an image and its disk while the machine runs.
func (m *monitor) fail(i int, blocks []uint64) error {
	add := map[string]any{"driver": "blkdebug", "node-name": nodeBroken(i), "image": nodeImage(i), "inject-error": faults(blocks)}
	if err := m.execute("blockdev-add", add); err != nil {
		return err
	}
	disk := map[string]any{"driver": "raw", "node-name": nodeDisk(i), "file": nodeBroken(i)}
	return m.execute("blockdev-reopen", map[string]any{"options": []any{disk}})
}
