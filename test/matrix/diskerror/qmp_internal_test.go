package diskerror

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// emulator answers on a control socket: a greeting, then one answer per command.
func emulator(t *testing.T, greeting string, answers ...string) (path string, commands <-chan string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	heard := make(chan string, len(answers))
	go func() {
		defer close(heard)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintln(conn, greeting)
		in := bufio.NewReader(conn)
		for _, answer := range answers {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			heard <- strings.TrimSpace(line)
			fmt.Fprintln(conn, answer)
		}
	}()
	return path, heard
}

const hello = `{"QMP": {"version": {}, "capabilities": []}}`

func TestTheDiskOfARunningMachineIsMadeToFail(t *testing.T) {
	path, heard := emulator(t, hello, `{"return": {}}`, `{"event": "RESUME"}{"return": {}}`, `{"return": {}}`)
	m, err := dialMonitor(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.fail(7, []uint64{3}); err != nil {
		t.Fatal(err)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range heard {
		got = append(got, line)
	}
	want := []string{
		`{"execute":"qmp_capabilities"}`,
		`{"arguments":{"driver":"blkdebug","image":"image7","inject-error":[{"event":"write_aio","iotype":"write","errno":5,"sector":24}],"node-name":"broken7"},"execute":"blockdev-add"}`,
		`{"arguments":{"options":[{"driver":"raw","file":"broken7","node-name":"disk7"}]},"execute":"blockdev-reopen"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutBlocksAllFlushesFail(t *testing.T) {
	b, err := json.Marshal(faults(nil))
	if err != nil || string(b) != `[{"event":"flush_to_disk","iotype":"flush","errno":5}]` {
		t.Errorf("%s %v", b, err)
	}
}

func TestARefusalOfTheEmulatorIsAnError(t *testing.T) {
	path, _ := emulator(t, hello, `{"return": {}}`, `{"error": {"class": "GenericError", "desc": "no such node"}}`)
	m, err := dialMonitor(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.fail(0, nil); err == nil || !strings.Contains(err.Error(), "blockdev-add: GenericError: no such node") {
		t.Error(err)
	}
	if err := m.execute("quit", nil); err == nil {
		t.Error("an emulator that has gone must be an error")
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoControlSocketIsRefused(t *testing.T) {
	path, _ := emulator(t, `{"hello": 1}`)
	if m, err := dialMonitor(path); err == nil {
		t.Error("it was taken for one")
		_ = m.close()
	}
	if _, err := dialMonitor(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("there was nothing to connect to")
	}
}
