package kafka

import (
	"os/exec"
	"strings"
	"testing"
)

// debianPython is the interpreter that Debian's package python3-kafka is for; another
// one may come first in the path.
const debianPython = "/usr/bin/python3"

// python runs a script of the client library kafka-python, with the server's address
// as its argument.
func (r *rig) python(script string, args ...string) string {
	r.t.Helper()
	return r.pythonWith("kafka", "python3-kafka", script, args...)
}

// pythonWith runs a script of another client library, which Debian has in a package.
func (r *rig) pythonWith(library, debianPackage, script string, args ...string) string {
	r.t.Helper()
	if err := exec.Command(debianPython, "-c", "import "+library).Run(); err != nil {
		r.t.Skipf("%s is not installed; apt-get install %[1]s", debianPackage)
	}
	cmd := exec.CommandContext(r.ctx(), debianPython, append([]string{"-c", script, r.addr}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	return string(out)
}

func TestPythonProducesConsumesAndAdministers(t *testing.T) {
	r := start(t)
	const script = `
import sys
from kafka import KafkaProducer, KafkaConsumer, TopicPartition, KafkaAdminClient
from kafka.admin import NewTopic, NewPartitions, ConfigResource, ConfigResourceType

addr = sys.argv[1]
admin = KafkaAdminClient(bootstrap_servers=addr)
admin.create_topics([NewTopic("made", 2, 1, topic_configs={"retention.bytes": "1000000"})])
admin.create_partitions({"made": NewPartitions(3)})
configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "made")])
values = {c[0]: c[1] for c in configs[0].resources[0][4]}
print("retention", values["retention.bytes"], "format", values["felix.format"])
print("partitions", len(admin.describe_topics(["made"])[0]["partitions"]))

for begin, codec in ((0, None), (200, "gzip")):
    producer = KafkaProducer(bootstrap_servers=addr, acks="all", compression_type=codec)
    for i in range(begin, begin + 200):
        producer.send("made", key=b"k%d" % i, value=b"v%d" % i, headers=[("h", b"x")], partition=1, timestamp_ms=1000 + i)
    producer.flush()
    producer.close()

consumer = KafkaConsumer(bootstrap_servers=addr, auto_offset_reset="earliest", consumer_timeout_ms=10000)
p = TopicPartition("made", 1)
consumer.assign([p])
print("ends", consumer.beginning_offsets([p])[p], consumer.end_offsets([p])[p])
print("time", consumer.offsets_for_times({p: 1100})[p].offset)
consumer.seek_to_beginning(p)
got = []
while len(got) < 400:
    got.append(next(consumer))
for i, m in enumerate(got):
    assert (m.offset, m.key, m.value, m.headers, m.timestamp) == (i, b"k%d" % i, b"v%d" % i, [("h", b"x")], 1000 + i), m
print("topics", sorted(consumer.topics()))
consumer.close()
admin.delete_topics(["made"])
print("left", admin.list_topics())
admin.close()
`
	want := `retention 1000000 format kafka
partitions 3
ends 0 400
time 100
topics ['default.default.made']
left []
`
	if got := r.python(script); got != want {
		t.Errorf("it printed\n%s", got)
	}
}

func TestPythonAuthenticates(t *testing.T) {
	r := guarded(t)
	const script = `
import sys
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
def topics(secret, patience): # deriving a secret takes seconds under the race detector
    admin = KafkaAdminClient(bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
        sasl_plain_username="root", sasl_plain_password=secret, api_version_auto_timeout_ms=patience)
    found = admin.list_topics()
    admin.close()
    return found
print(topics(sys.argv[2], 14000))
try:
    topics("wrong", 2000)
    print("a wrong secret was served")
except KafkaError:
    print("refused")
`
	if got := r.python(script, secret); got != "[]\nrefused\n" {
		t.Errorf("it printed\n%s", got)
	}
}
