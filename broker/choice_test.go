package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// The hash is held against a client's own, which others wrote.
func TestAKeyGoesToTheShardThatAKafkaClientWouldChoose(t *testing.T) {
	client := kgo.StickyKeyPartitioner(nil).ForTopic("any")
	check := func(key []byte, shards int) error {
		if got, want := keyShard(key, shards), client.Partition(&kgo.Record{Key: key}, shards); got != want {
			return fmt.Errorf("key %q of %d shards goes to %d, a client chooses %d", key, shards, got, want)
		}
		return nil
	}
	for length := range 40 { // each remainder of the words of four bytes
		key := make([]byte, length)
		for i := range key {
			key[i] = byte(0xff - i*7)
		}
		for _, shards := range []int{1, 2, 3, 7, 8, 1024} {
			if err := check(key, shards); err != nil {
				t.Error(err)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "key")...)
		if err := check(key, rapid.IntRange(1, 5000).Draw(t, "shards")); err != nil {
			t.Fatal(err)
		}
	})
}

// Known values, so that the hash stays the same whatever a client's library does.
func TestTheKeyHashIsTheseNumbers(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}
