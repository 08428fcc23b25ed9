package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked is what a client says and gets in InitProducerId.
type asked struct {
	id    int64
	epoch int16
	code  code
}

func (c *raw) initProducer(v int16, transactional *string, id int64, epoch int16) asked {
	c.t.Helper()
	request := kmsg.NewPtrInitProducerIDRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = transactional, id, epoch
	got := c.ask(version(v, request)).(*kmsg.InitProducerIDResponse)
	return asked{got.ProducerID, got.ProducerEpoch, code(got.ErrorCode)}
}

func TestEveryProducerGetsAnIDOfItsOwn(t *testing.T) {
	seen := make(map[int64]bool)
	for range 2 { // servers that know nothing of each other
		c := start(t).dial()
		for v := range int16(5) {
			for range 20 {
				got := c.initProducer(v, nil, -1, -1)
				if got.code != codeNone || got.epoch != 0 || got.id <= 0 || got.id > producerIDMax || seen[got.id] {
					t.Errorf("version %d: %+v", v, got)
				}
				seen[got.id] = true
			}
		}
	}
	wide := int64(0)
	for id := range seen {
		wide |= id
	}
	if wide != producerIDMax {
		t.Errorf("of 200 ids these bits are used: %#x", wide)
	}
}

func TestAProducerThatComesWithItsIDGetsTheNextEpoch(t *testing.T) {
	c := start(t).dial()
	for _, v := range []int16{3, 4} {
		for _, epoch := range []int16{0, 1, producerEpochMax - 1} {
			if got := c.initProducer(v, nil, 7, epoch); got != (asked{7, epoch + 1, codeNone}) {
				t.Errorf("version %d, epoch %d: %+v", v, epoch, got)
			}
		}
		for _, of := range []struct {
			id    int64
			epoch int16
		}{{7, producerEpochMax}, {producerIDMax + 1, 0}, {0, 0}} {
			if got := c.initProducer(v, nil, of.id, of.epoch); got.code != codeNone || got.epoch != 0 || got.id == of.id || !isProducerID(got.id) {
				t.Errorf("version %d, %+v: %+v; want a new id", v, of, got)
			}
		}
	}
	if got := c.initProducer(2, nil, 7, 5); got.id == 7 || got.epoch != 0 {
		t.Errorf("version 2 has no field for an id: %+v", got)
	}
}

func TestWhatIsNoIdempotentProducerGetsNoID(t *testing.T) {
	c := start(t).dial()
	name, none := "transactional", ""
	for what, got := range map[string]asked{
		"a transactional id":          c.initProducer(4, &name, -1, -1),
		"an empty one":                c.initProducer(0, &none, -1, -1),
		"an id without an epoch":      c.initProducer(4, nil, 7, -1),
		"an epoch without an id":      c.initProducer(4, nil, -1, 7),
		"a transactional id and more": c.initProducer(3, &name, 7, 7),
	} {
		if got != (asked{-1, -1, codeInvalidRequest}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
