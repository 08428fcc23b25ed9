package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/broker"
)

func openForFuzz() (*broker.Broker, error) {
	b, err := broker.Open(context.Background(), broker.Config{Logger: quiet()})
	if err == nil {
		_, _, err = b.CreateStream(context.Background(), broker.StreamName{Tenant: "acme", Namespace: "shop", Stream: "orders"}, broker.StreamConfig{})
	}
	return b, err
}

// parseBatch reads a batch with memory enough.
func parseBatch(data []byte, recordsMax int) ([]broker.Message, error) {
	b := batch{recordsMax: recordsMax, claim: func(int64) error { return nil }}
	err := b.parse(data)
	return b.messages, err
}

func closeAfterFuzz(f *testing.F, b *broker.Broker) {
	if err := b.Close(context.Background()); err != nil {
		f.Error(err)
	}
}

// plainLine is a line as encoding/json sees it.
type plainLine struct {
	Text            *string       `json:"text"`
	Base64          []byte        `json:"base64"`
	Key             *string       `json:"key"`
	KeyBase64       []byte        `json:"key_base64"`
	Headers         []plainHeader `json:"headers"`
	TimestampMicros uint64        `json:"timestamp_micros"`
}

type plainHeader struct {
	Text      *string `json:"text"`
	Base64    []byte  `json:"base64"`
	Key       string  `json:"key"`
	KeyBase64 []byte  `json:"key_base64"`
}

func bytesOf(text *string, data []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return data
}

// message is what a line means, as encoding/json sees it.
func (l plainLine) message() broker.Message {
	m := broker.Message{Value: bytesOf(l.Text, l.Base64), Key: bytesOf(l.Key, l.KeyBase64), TimestampMicros: l.TimestampMicros}
	for _, h := range l.Headers {
		key := h.Key
		if h.KeyBase64 != nil {
			key = string(h.KeyBase64)
		}
		m.Headers = append(m.Headers, broker.Header{Key: key, Value: bytesOf(h.Text, h.Base64)})
	}
	return m
}

// FuzzBatch holds the parser against encoding/json: what it takes means the same
// there, and a message that is written as a line comes back.
func FuzzBatch(f *testing.F) {
	for _, text := range []string{
		`{"text":"a"}`, "{\"base64\":\"/wA=\"}\n{\"text\":\"\"}\r\n", `{"text":"\u00e9\ud83d\ude00\n\"\\\/"}`, `{"text":"\ud83d"}`, `{"text":"\ud83dx"}`,
		`{"text":null,"key":"k","headers":[{"key":"h","text":"v"},{"key_base64":"AA==","base64":""}],"timestamp_micros":12}`,
		`{"text":"a","headers":[]}`, `{"text":"a"} x`, "\n\n{}", `{"text":"a",}`, `{"text":"a","timestamp_micros":01}`, "{\"text\":\"\x01\"}", `{"base64":"AB=="}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		messages, err := parseBatch(bytes.Clone(text), 100)
		if err != nil {
			var own *requestError
			if !errors.As(err, &own) || own.problem.message == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		var want []broker.Message
		for line := range bytes.SplitSeq(text, []byte{'\n'}) {
			if len(bytes.Trim(line, " \t\r")) == 0 {
				continue
			}
			var plain plainLine
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&plain); err != nil {
				t.Fatalf("%q was taken and is no JSON: %v", line, err)
			}
			want = append(want, plain.message())
		}
		equal := cmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })
		for i := range messages {
			if len(messages[i].Headers) == 0 {
				messages[i].Headers = nil
			}
		}
		if diff := cmp.Diff(want, messages, equal); diff != "" {
			t.Fatalf("(-encoding/json +ours):\n%s", diff)
		}
		for _, m := range messages {
			comesBack(t, m)
		}
	})
}

// comesBack writes a message as a record and reads it as encoding/json does.
func comesBack(t *testing.T, m broker.Message) {
	t.Helper()
	var text bytes.Buffer
	o := &output{to: &text, buf: make([]byte, 0, outputBytes)}
	o.record(3, &broker.Record{Offset: 7, Message: m})
	if err := o.flush(); err != nil {
		t.Fatal(err)
	}
	conform(t, "Record", text.Bytes())
	var plain plainLine
	decode(t, text.Bytes(), &plain)
	back := plain.message()
	if !bytes.Equal(back.Value, m.Value) || !bytes.Equal(back.Key, m.Key) || (back.Value == nil) != (m.Value == nil) || len(back.Headers) != len(m.Headers) {
		t.Fatalf("%q became %s", m.Value, text.Bytes())
	}
	for i, h := range back.Headers {
		if h.Key != m.Headers[i].Key || !bytes.Equal(h.Value, m.Headers[i].Value) {
			t.Fatalf("%q became %s", m.Headers[i], text.Bytes())
		}
	}
}

func TestTextOfEveryLengthAroundTheBufferIsWrittenWhole(t *testing.T) {
	for _, unit := range []string{"a", "é", "\x01", "\"", "a\"", "😀\n"} {
		for _, around := range []int{outputBytes / 2, outputBytes, 3 * outputBytes} {
			for size := around - 3; size < around+4; size++ {
				value := []byte(strings.Repeat(unit, size/len(unit)+1))
				if !utf8.Valid(value) {
					t.Fatal("the test is wrong")
				}
				comesBack(t, broker.Message{Value: value})
				comesBack(t, broker.Message{Value: append(value[:size:size], 0xff)})
			}
		}
	}
}

// The decoder writes into what it reads, which its documentation does not promise.
func TestBase64OfEveryLengthDecodesInPlace(t *testing.T) {
	for size := range 300 {
		data := bytes.Repeat([]byte{0xfb, 0, 0x7f}, 100)[:size]
		r := reader{rest: []byte(`"` + base64.StdEncoding.EncodeToString(data) + `"`)}
		got, err := r.base64()
		if err != nil || !bytes.Equal(got, data) || len(r.rest) != 0 {
			t.Fatalf("%d bytes: %q, %v", size, got, err)
		}
	}
}

func TestHeadersAreBoundedInARecordAndInABatch(t *testing.T) {
	line := func(headers int) string {
		return `{"text":"","headers":[` + strings.TrimSuffix(strings.Repeat(`{"key":"","text":""},`, headers), ",") + "]}\n"
	}
	if _, err := parseBatch([]byte(line(headersMax)), 10); err != nil {
		t.Error(err)
	}
	if _, err := parseBatch([]byte(line(headersMax+1)), 10); err == nil {
		t.Error("a record has too many headers")
	}
	full := strings.Repeat(line(headersMax), batchHeadersMax/headersMax)
	if _, err := parseBatch([]byte(full), 1000); err != nil {
		t.Error(err)
	}
	if _, err := parseBatch([]byte(full+line(1)), 1000); err == nil {
		t.Error("a batch has too many headers")
	}
}

func BenchmarkParseBatch(b *testing.B) {
	text := []byte(strings.Repeat(`{"text":"`+strings.Repeat("x", 100)+"\"}\n", 100))
	data := make([]byte, len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		copy(data, text)
		if _, err := parseBatch(data, 1000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteRecord(b *testing.B) {
	for _, size := range []int{128, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := &output{to: io.Discard, buf: make([]byte, 0, outputBytes)}
			record := broker.Record{Message: broker.Message{Value: bytes.Repeat([]byte("x"), size)}}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				o.record(0, &record)
			}
		})
	}
}
