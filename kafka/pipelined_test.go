package kafka

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// inFlight is how many batches clients with idempotence have under way.
const inFlight = 5

// pipeline is a producer whose batches, of two records each, are all sent before an
// answer is read.
type pipeline struct {
	*rig
	producer producer
}

// batchOf is the batch with this number, counted from 0.
func (p pipeline) batchOf(i int) []byte {
	return p.producer.batch(int32(2*i), fmt.Sprintf("%da", i), fmt.Sprintf("%db", i))
}

func (p pipeline) send(c *raw) {
	for i := range inFlight {
		c.send(produceOf("t", 0, p.batchOf(i)))
	}
}

// sendBehind is send where the first batch is held at the disk, by itself, before the
// others have their places.
func (p pipeline) sendBehind(c *raw, held *faultdisk.Injected) {
	for i := range inFlight {
		c.send(produceOf("t", 0, p.batchOf(i)))
		<-held.Reached()
	}
	p.placed(inFlight)
}

// receive reads the answers to all batches, which are to come in order.
func (p pipeline) receive(c *raw) (got []answer) {
	p.t.Helper()
	request := produceOf("t", 0, nil)
	for i := range int32(inFlight) {
		part := c.receive(request, c.correlation-inFlight+1+i).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		got = append(got, answer{code(part.ErrorCode), part.BaseOffset})
	}
	return got
}

// placed waits until this many batches under way have their places.
func (p pipeline) placed(n int) {
	p.t.Helper()
	stream, err := p.broker.Stream(broker.StreamName{Tenant: DefaultName, Namespace: DefaultName, Stream: "t"})
	if err != nil {
		p.t.Fatal(err)
	}
	r := p.server.remembered
	at := r.use(rememberedKey{stream, 0, producerNumber(p.producer.id, p.producer.epoch)})
	defer r.leave(at)
	p.until(fmt.Sprintf("%d batches have their places", n), func() bool {
		at.turn <- struct{}{}
		defer func() { <-at.turn }()
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(at.batches) == min(n, inFlight) && at.using == n+1
	})
}

// stored fails the test unless the log holds each record once, in order.
func (p pipeline) stored() {
	p.t.Helper()
	var want []string
	for i := range inFlight {
		want = append(want, fmt.Sprintf("%da", i), fmt.Sprintf("%db", i))
	}
	if diff := cmp.Diff(want, p.values("t", 0)); diff != "" {
		p.t.Errorf("(-want +stored):\n%s", diff)
	}
}

// all is one answer to every batch; offsets are those of records stored from 0 on.
func all(c code) (list []answer) {
	for i := range inFlight {
		one := answer{c, -1}
		if c == codeNone {
			one.BaseOffset = int64(2 * i)
		}
		list = append(list, one)
	}
	return list
}

func (p pipeline) want(what string, got, want []answer) {
	p.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("%s (-want +answered):\n%s", what, diff)
	}
}

// What comes while the first batch is flushed waits for one flush, not for one each.
func TestBatchesOfAProducerThatAreUnderWayShareAFlush(t *testing.T) {
	r, disk := faulty(t)
	r.create("t", 1, nil)
	p := pipeline{r, producer{1, 0}}
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	disk.ClearLog()
	c := r.dial()
	p.sendBehind(c, stalled)
	stalled.Release()
	p.want("sent at once", p.receive(c), all(codeNone))
	writes := 0
	for _, e := range disk.Log(faultdisk.Writes | faultdisk.Flush | faultdisk.FlushAll) {
		if isLog(e.Path) {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d batches took %d writes and flushes of the log", inFlight, writes)
	}
	p.stored()
	if n := r.broker.Stats().Publishes; n != inFlight {
		t.Errorf("%d publishes are counted", n)
	}
}

// When a batch fails, those behind it that are on the way fail too, and all of them are
// stored once when they are sent again.
func TestBatchesUnderWayFailTogetherAndAreStoredWhenTheyAreSentAgain(t *testing.T) {
	r, disk := faulty(t)
	r.create("t", 1, nil)
	p := pipeline{r, producer{1, 0}}
	full := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Stall: true})
	defer full.Release()
	c := r.dial()
	p.sendBehind(c, full)
	full.Release()
	p.want("the disk is full", p.receive(c), all(codeKafkaStorageError))
	// Nothing of the producer is there; as clients see it batches are missing, and no
	// producer.
	if got := c.produce("t", 0, p.batchOf(inFlight)); got != (answer{codeOutOfOrderSequence, -1}) {
		t.Errorf("behind what failed: %+v", got)
	}
	p.send(c)
	p.want("there is room", p.receive(c), all(codeNone))
	p.stored()
}

// What a client is told of a poisoned log leaves it to try again once the server runs
// anew.
func TestBatchesUnderWayInALogThatIsPoisonedAreStoredOnceAfterARestart(t *testing.T) {
	for _, lands := range []faultdisk.Lands{faultdisk.Nothing, faultdisk.Everything} {
		t.Run(fmt.Sprint(lands), func(t *testing.T) {
			root := t.TempDir()
			onRoot := func(_ *Config, b *broker.Config) { b.Root = root }
			who := producer{1, 0}
			t.Run("before", func(t *testing.T) {
				r, disk := faulty(t, onRoot)
				r.create("t", 1, nil)
				p := pipeline{r, who}
				failing := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.EIO, Lands: lands, Stall: true})
				defer failing.Release()
				c := r.dial()
				p.sendBehind(c, failing)
				failing.Release()
				p.want("the flush fails", p.receive(c), all(codeKafkaStorageError))
			})
			p := pipeline{start(t, onRoot), who}
			c := p.dial()
			p.send(c)
			p.want("after the restart", p.receive(c), all(codeNone))
			p.stored()
		})
	}
}

// A client that lost its connection sends again what is still under way. Each batch is
// answered when it is acknowledged, with its offset.
func TestBatchesUnderWayAreAnsweredToAnotherConnection(t *testing.T) {
	r, disk := faulty(t)
	r.create("t", 1, nil)
	p := pipeline{r, producer{1, 0}}
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	lost, c := r.dial(), r.dial()
	p.sendBehind(lost, stalled)
	if err := lost.nc.Close(); err != nil {
		t.Fatal(err)
	}
	p.send(c)
	p.placed(2 * inFlight)
	stalled.Release()
	p.want("sent again", p.receive(c), all(codeNone))
	p.stored()
}

// What has its place is given up at its deadline, and is known when it is sent again.
func TestBatchesUnderWayThatAreGivenUpAreKnownWhenTheyAreSentAgain(t *testing.T) {
	r, disk := faulty(t)
	r.create("t", 1, nil)
	p := pipeline{r, producer{1, 0}}
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	c := r.dial()
	for i := range inFlight {
		request := produceOf("t", 0, p.batchOf(i))
		request.TimeoutMillis = 500
		c.send(request)
	}
	p.want("while the flush hangs", p.receive(c), all(codeRequestTimedOut))
	p.send(c)
	p.placed(inFlight)
	stalled.Release()
	p.want("sent again", p.receive(c), all(codeNone))
	p.stored()
}

// A batch that failed and was given another place is where it was put last, whichever of
// the two tries is told of its end first.
func TestABatchIsRememberedWhereItWasPutLast(t *testing.T) {
	p := &rememberedProducer{turn: make(chan struct{}, 1)}
	b := producedBatch{producer: 1, records: 2}
	first := p.place(b, broker.Published{First: 10})
	if again := p.place(b, broker.Published{First: 10, Duplicate: true}); again != nil {
		t.Error("a try that found the batch remembers it a second time")
	}
	second := p.place(b, broker.Published{First: 7})
	failed := &engine.FullError{}
	if _, err := p.settle(b, first, broker.Published{}, failed); err != failed {
		t.Error(err)
	}
	if known := p.find(b); known != second || known.first != 7 {
		t.Errorf("%+v is remembered", known)
	}
	if _, err := p.settle(b, second, broker.Published{}, failed); err != failed {
		t.Error(err)
	}
	if known := p.find(b); known != nil {
		t.Errorf("%+v is remembered, and failed", known)
	}
}
