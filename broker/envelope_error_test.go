package broker_test

import (
	"testing"

	"felix.local/felix/broker"
)

// Records that another program wrote into the shard are no envelopes. What is before
// such a record and after it can be read; the record itself is named.
func TestARecordThatIsNoEnvelopeIsNamedAndHidesNoOther(t *testing.T) {
	r := newRig(t)
	raw := r.create(name("s"), broker.StreamConfig{Durable: true})
	good := func(value string) string {
		return string(broker.AppendEnvelope(nil, &broker.Message{Key: []byte("k"), Value: []byte(value)}))
	}
	r.publish(raw, 0, good("0"), good("1"), "no envelope", good("3"), good("4"))
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.b = nil
	r.forget("s") // and create it again, with another format
	r.open()
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Format: broker.FormatKafka})
	page := r.read(s, 0, 0)
	if len(page.Records) != 2 || string(page.Records[1].Value) != "1" || page.Next != 5 {
		t.Errorf("%+v", page)
	}
	_, err := s.Read(r.ctx, 0, 2, 1000, 0)
	if e := errorAs[*broker.EnvelopeError](t, err); e.Offset != 2 || e.Shard != 0 || e.Stream != name("s") {
		t.Errorf("%+v", e)
	}
	if page := r.read(s, 0, 3); len(page.Records) != 2 || string(page.Records[0].Value) != "3" {
		t.Errorf("%+v", page)
	}
	sub := r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{})
	if d := r.next(sub); len(d.Records) != 2 || d.Next != 2 {
		t.Errorf("%+v", d)
	}
	for range 2 {
		d, err := sub.Next(r.ctx)
		if e := errorAs[*broker.EnvelopeError](t, err); e.Offset != 2 || d.Next != 2 || len(d.Records) != 0 {
			t.Errorf("%+v, %+v", e, d)
		}
	}
	r.publish(s, 0, "5")
	if page := r.read(s, 0, 5); len(page.Records) != 1 || string(page.Records[0].Value) != "5" {
		t.Errorf("%+v", page)
	}
}
