package broker

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func drawDefinition(t *rapid.T) definition {
	part := rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`)
	optional := func(label string) *int64 {
		if rapid.Bool().Draw(t, "no "+label) {
			return nil
		}
		v := rapid.Int64Range(0, math.MaxInt64).Draw(t, label)
		return &v
	}
	d := definition{
		Tenant: part.Draw(t, "tenant"), Namespace: part.Draw(t, "namespace"), Stream: part.Draw(t, "stream"),
		Durable: rapid.Bool().Draw(t, "durable"), Shards: rapid.IntRange(1, 1024).Draw(t, "shards"),
		Format:         rapid.SampledFrom([]string{"raw", "kafka"}).Draw(t, "format"),
		Fsync:          rapid.SampledFrom([]string{"", "none", "periodic", "on_commit"}).Draw(t, "fsync"),
		RetentionBytes: optional("bytes"), RetentionMicros: optional("micros"),
		Deleting: rapid.Bool().Draw(t, "deleting"), CreatedAtMicros: rapid.Uint64().Draw(t, "created"),
	}
	for range rapid.IntRange(0, min(d.Shards, 5)).Draw(t, "floors") {
		d.Floors = append(d.Floors, rapid.Uint64().Draw(t, "floor"))
	}
	return d
}

func TestADefinitionReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDefinition(t)
		b, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeDefinition(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// aDefinition uses every field.
func aDefinition() definition {
	bytes, micros := int64(1<<30), int64(86_400_000_000)
	return definition{
		Tenant: "acme", Namespace: "default", Stream: "orders", Durable: true, Shards: 4, Format: "kafka", Fsync: "periodic",
		RetentionBytes: &bytes, RetentionMicros: &micros, Floors: []uint64{0, 17, 18446744073709551615}, CreatedAtMicros: 1_700_000_000_000_000,
	}
}

// The file of former versions is read as long as there is one of them somewhere.
func TestADefinitionIsTheseBytes(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "definition.json"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := aDefinition().encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, golden) {
		t.Errorf("written as\n%s, want\n%s", b, golden)
	}
	got, err := decodeDefinition(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(aDefinition(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestADefinitionThatIsCutAnywhereIsRefused(t *testing.T) {
	b, err := aDefinition().encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if d, err := decodeDefinition(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", n, len(b), d)
		}
	}
}

func TestADefinitionWithAnyBitFlippedIsRefused(t *testing.T) {
	for _, d := range []definition{aDefinition(), {Tenant: "t", Namespace: "n", Stream: "s", Shards: 1, Format: "raw"}} {
		b, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			if got, err := decodeDefinition(b); err == nil {
				t.Errorf("bit %d of byte %d: read as %+v", i%8, i/8, got)
			}
			b[i/8] ^= 1 << (i % 8)
		}
	}
}

// enclose gives a file around a definition, with the right checksum.
func enclose(t *testing.T, version int, body string) []byte {
	t.Helper()
	b, err := json.Marshal(definitionFile{Version: version, Definition: json.RawMessage(body), CRC32C: checksum([]byte(body))})
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestADefinitionThatThisBuildDoesNotUnderstandIsRefused(t *testing.T) {
	body := func(change string) string {
		return `{"tenant":"t","namespace":"n","stream":"s","durable":true,` + change + `"created_at_micros":1}`
	}
	good := body(`"shards":2,"format":"raw",`)
	if _, err := decodeDefinition(enclose(t, 1, good)); err != nil {
		t.Fatal(err) // or what follows proves nothing
	}
	for what, b := range map[string][]byte{
		"a version from the future": enclose(t, 2, good),
		"no version":                enclose(t, 0, good),
		"a negative version":        enclose(t, -1, good),
		"a field from the future":   enclose(t, 1, body(`"shards":2,"format":"raw","encrypted":true,`)),
		"a field twice":             enclose(t, 1, body(`"shards":2,"shards":3,"format":"raw",`)),
		"a field in capitals":       enclose(t, 1, body(`"SHARDS":2,"format":"raw",`)),
		"no shards":                 enclose(t, 1, body(`"format":"raw",`)),
		"shards below 1":            enclose(t, 1, body(`"shards":-1,"format":"raw",`)),
		"more floors than shards":   enclose(t, 1, body(`"shards":1,"format":"raw","floors":[1,2],`)),
		"a negative floor":          enclose(t, 1, body(`"shards":1,"format":"raw","floors":[-1],`)),
		"another format":            enclose(t, 1, body(`"shards":2,"format":"avro",`)),
		"another fsync":             enclose(t, 1, body(`"shards":2,"format":"raw","fsync":"sometimes",`)),
		"a negative retention":      enclose(t, 1, body(`"shards":2,"format":"raw","retention_bytes":-5,`)),
		"a name that is a path":     enclose(t, 1, strings.Replace(good, `"t"`, `"../t"`, 1)),
		"two definitions":           bytes.Repeat(enclose(t, 1, good), 2),
		"blanks in front":           append([]byte("  "), enclose(t, 1, good)...),
		"null":                      []byte("null\n"),
		"a list":                    []byte("[]\n"),
		"nothing":                   {},
		"zeros":                     make([]byte, 300),
	} {
		if d, err := decodeDefinition(b); err == nil {
			t.Errorf("%s is read as %+v", what, d)
		}
	}
}

func TestTwoStreamsHaveTwoFiles(t *testing.T) {
	names := []StreamName{
		{"a", "bc", "d"},
		{"ab", "c", "d"},
		{"a", "b", "cd"},
		{"a", "b_", "cd"},
		{"a_", "b", "cd"},
		{"a", "B", "cd"},
		{strings.Repeat("x", 128), "n", "s"},
		{strings.Repeat("x", 127), "n", "s"},
		{strings.Repeat("x", 127) + "y", "n", "s"},
	}
	seen := make(map[string]StreamName)
	for _, n := range names {
		file := fileName(n)
		if other, taken := seen[file]; taken {
			t.Errorf("%v and %v share %s", n, other, file)
		}
		seen[file] = n
		if len(file) > 200 || strings.ContainsAny(file, "/\x00") || !strings.HasSuffix(file, definitionSuffix) {
			t.Errorf("the file of %v is %q", n, file)
		}
	}
}
