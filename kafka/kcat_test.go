package kafka

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/internal/faultdisk"
)

// kcat runs kcat, a client over librdkafka, with what it is to read.
func (r *rig) kcat(input string, args ...string) string {
	r.t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		r.t.Skip("kcat is not installed; apt-get install kcat")
	}
	cmd := exec.CommandContext(r.ctx(), path, append([]string{"-b", r.addr}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("kcat %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	// kcat warns of nothing that is served well.
	if text := stderr.String(); strings.Contains(text, "ERROR") || strings.Contains(text, "WARN") || strings.Contains(text, "unsupported") {
		r.t.Errorf("kcat %s said:\n%s", strings.Join(args, " "), text)
	}
	return string(out)
}

func TestKcatProducesInEveryCodecAndConsumes(t *testing.T) {
	r := start(t)
	var lines strings.Builder
	for range 500 {
		lines.WriteString("key:some value that compresses, some value that compresses\n")
	}
	for _, codec := range []string{"none", "gzip", "snappy", "zstd"} {
		topic := "kcat-" + codec
		before := r.server.Stats().ProducedBytes
		// The client fills its batches: how well it compresses does not hang on how fast it is.
		r.kcat(lines.String(), "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, "-H", "name=x", "-X", "linger.ms=60000", "-X", "batch.num.messages=250")
		sent := r.server.Stats().ProducedBytes - before
		got := r.kcat("", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%k:%s %h\n")
		if want := strings.ReplaceAll(lines.String(), "\n", " name=x\n"); got != want {
			t.Errorf("%s: read %d bytes that are not the %d written", codec, len(got), len(want))
		}
		// A client that thinks a codec is not served compresses nothing.
		if (codec == "none") != (sent > uint64(lines.Len())/2) {
			t.Errorf("%s: %d bytes were sent of %d", codec, sent, lines.Len())
		}
	}
}

func TestKcatProducesWithIdempotence(t *testing.T) {
	r := start(t)
	r.create("memory", 1, map[string]string{configDurable: "false"})
	var lines strings.Builder
	for i := range 500 {
		fmt.Fprintf(&lines, "record %d\n", i)
	}
	for i, topic := range []string{"made", "memory"} {
		r.kcat(lines.String(), "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-X", "batch.num.messages=20")
		if n := r.server.Stats().Requests["InitProducerID"]; n != uint64(i+1) {
			t.Errorf("%d ids were asked for", n)
		}
		if got := r.kcat("", "-C", "-t", topic, "-o", "beginning", "-e", "-q"); got != lines.String() {
			t.Errorf("%s: read %d bytes that are not the %d written", topic, len(got), lines.Len())
		}
	}
}

// The first batches find a full disk, and those on the way behind them are early.
func TestKcatWithIdempotenceGoesOnWhenThereIsRoomAgain(t *testing.T) {
	r, disk := faulty(t)
	r.create("full", 1, nil)
	full := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Times: 4})
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, "record %d\n", i)
	}
	r.kcat(lines.String(), "-P", "-t", "full", "-p", "0", "-X", "enable.idempotence=true", "-X", "batch.num.messages=5", "-X", "retry.backoff.ms=10")
	if got := strings.Join(r.values("full", 0), "\n") + "\n"; got != lines.String() {
		t.Errorf("%d bytes are stored that are not the %d written:\n%s", len(got), lines.Len(), got)
	}
	if full.Hits() != 4 {
		t.Errorf("the disk was full %d times", full.Hits())
	}
}

func TestKcatFindsPlaces(t *testing.T) {
	r := start(t)
	r.kcat("a\nb\nc\nd\n", "-P", "-t", "places", "-p", "0")
	for from, want := range map[string]string{"beginning": "abcd", "2": "cd", "-1": "d", "s@0": "abcd"} {
		if got := r.kcat("", "-C", "-t", "places", "-p", "0", "-o", from, "-e", "-q", "-f", "%s"); got != want {
			t.Errorf("from %s: %q", from, got)
		}
	}
	if got := r.kcat("", "-Q", "-t", "places:0:-1"); !strings.Contains(got, "offset 4") {
		t.Errorf("the end is %q", got)
	}
}

func TestKcatListsAndMakesTopicsOnlyWhenAllowed(t *testing.T) {
	r := start(t)
	r.create("acme.shop.orders", 3, nil)
	if got := r.kcat("", "-L"); !strings.Contains(got, `topic "acme.shop.orders" with 3 partitions`) || !strings.Contains(got, "broker 0 at "+r.addr) {
		t.Errorf("listed:\n%s", got)
	}
	if got := r.kcat("", "-L", "-t", "fresh", "-X", "allow.auto.create.topics=true"); !strings.Contains(got, `topic "fresh" with 1 partitions`) {
		t.Errorf("with leave:\n%s", got)
	}
	off := start(t, func(c *Config, _ *broker.Config) { c.AutoCreate = false })
	if got := off.kcat("", "-L", "-t", "fresh", "-X", "allow.auto.create.topics=true"); !strings.Contains(got, "Unknown topic") {
		t.Errorf("with creation off:\n%s", got)
	}
}

func TestKcatAuthenticates(t *testing.T) {
	r := guarded(t)
	// Deriving a secret takes seconds under the race detector.
	got := r.kcat("", "-L", "-m", "60", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=PLAIN",
		"-X", "sasl.username=root", "-X", "sasl.password="+secret)
	if !strings.Contains(got, "1 brokers") {
		t.Errorf("listed:\n%s", got)
	}
}
