package kafka

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

// incremental is a Fetch request of a session.
func incremental(id, epoch int32) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID, request.MaxBytes, request.SessionID, request.SessionEpoch, request.Version = -1, 1<<20, id, epoch, 11
	return request
}

// named are the topics that an answer speaks of, in order.
func named(r *kmsg.FetchResponse) []string {
	names := []string{}
	for _, t := range r.Topics {
		names = append(names, t.Topic)
	}
	return names
}

func TestASessionSaysOnlyWhatIsNew(t *testing.T) {
	r := start(t)
	c := r.dial()
	one := encode([]broker.Record{{Message: broker.Message{Value: []byte("v")}}})
	for _, topic := range []string{"a", "b", "c"} {
		r.create(topic, 1, nil)
		c.ask(produceOf(topic, 0, one))
	}
	fetch := func(request *kmsg.FetchRequest, result code, want ...string) *kmsg.FetchResponse {
		t.Helper()
		got := c.ask(request).(*kmsg.FetchResponse)
		if diff := cmp.Diff(append([]string{}, want...), named(got)); diff != "" || code(got.ErrorCode) != result {
			t.Errorf("epoch %d gave %d (-expected +named):\n%s", request.SessionEpoch, got.ErrorCode, diff)
		}
		return got
	}
	first := incremental(0, epochNew)
	addFetch(first, "a", 0, 1)
	addFetch(first, "b", 0, 1)
	addFetch(first, "missing", 0, 0)
	id := fetch(first, codeNone, "a", "b", "missing").SessionID
	if id == 0 {
		t.Fatal("no session was made")
	}
	// What failed is said every time; what is unchanged is not.
	fetch(incremental(id, 1), codeNone, "missing")
	c.ask(produceOf("b", 0, one))
	forget := incremental(id, 2)
	ft := kmsg.NewFetchRequestForgottenTopic()
	ft.Topic, ft.Partitions = "missing", []int32{0}
	forget.ForgottenTopics = append(forget.ForgottenTopics, ft)
	addFetch(forget, "c", 0, 0)
	fetch(forget, codeNone, "b", "c")
	// The client has the record of c, and not yet that of b: said again, after c's,
	// whose turn it was last.
	moved := incremental(id, 3)
	addFetch(moved, "c", 0, 1)
	fetch(moved, codeNone, "b")

	fetch(incremental(id, 3), codeInvalidFetchSessionEpoch)
	fetch(incremental(id+1, 4), codeFetchSessionIDNotFound)
	fetch(incremental(0, 4), codeInvalidFetchSessionEpoch)
	last := incremental(id, epochFinal)
	addFetch(last, "a", 0, 0)
	if got := fetch(last, codeNone, "a"); got.SessionID != 0 {
		t.Errorf("the end of session %d answers with %d", id, got.SessionID)
	}
	fetch(incremental(id, 4), codeFetchSessionIDNotFound)
}

func TestASessionBelongsToItsConnection(t *testing.T) {
	r := start(t)
	r.create("a", 1, nil)
	first := incremental(0, epochNew)
	addFetch(first, "a", 0, 0)
	owner := r.dial()
	id := owner.ask(first).(*kmsg.FetchResponse).SessionID
	other := r.dial()
	if got := other.ask(incremental(id, 1)).(*kmsg.FetchResponse); code(got.ErrorCode) != codeFetchSessionIDNotFound {
		t.Errorf("another connection got %d", got.ErrorCode)
	}
	if n := r.server.Stats().FetchSessions; n != 1 {
		t.Errorf("%d sessions are open", n)
	}
	owner.nc.Close()
	r.until("the session ended with its connection", func() bool { return r.server.Stats().FetchSessions == 0 })
}

func TestOldSessionsGiveWayAndYoungOnesDoNot(t *testing.T) {
	now := time.Unix(0, 0)
	s := newSessions(2, 10)
	s.now = func() time.Time { return now }
	owner := new(conn)
	parts := func(n int) []*fetchPart {
		var list []*fetchPart
		for i := range n {
			list = append(list, &fetchPart{partKey: partKey{"t", int32(i)}})
		}
		return list
	}
	a, b := s.open(owner, parts(1)), s.open(owner, parts(2))
	if s.open(owner, parts(1)) != nil {
		t.Error("a third session was made while two are young")
	}
	now = now.Add(sessionIdleMin)
	if s.find(a.id, owner) != a {
		t.Error("the first is gone")
	}
	if c := s.open(owner, parts(1)); c == nil || s.find(b.id, owner) != nil || s.find(a.id, owner) != a {
		t.Error("not the least recently used gave way")
	}
	if open, evicted := s.stats(); open != 2 || evicted != 1 {
		t.Errorf("%d open, %d evicted", open, evicted)
	}
	a.add(parts(9))
	if !s.recount(a) { // 9 and 1
		t.Error("ten partitions did not fit")
	}
	a.add(append(parts(9), &fetchPart{partKey: partKey{"u", 0}}))
	if s.recount(a) || s.find(a.id, owner) != nil {
		t.Error("eleven partitions did fit")
	}
	s.dropAll(owner)
	if open, _ := s.stats(); open != 0 || s.mu.parts != 0 || s.mu.recent.Len() != 0 {
		t.Errorf("%d sessions with %d partitions are left", open, s.mu.parts)
	}
	if s.open(owner, parts(11)) != nil {
		t.Error("a session above the bound of partitions was made")
	}
}

func TestEpochsOfASessionBeginAgainAtOne(t *testing.T) {
	n := &session{epoch: 1<<31 - 1}
	n.turn()
	if n.epoch != 1 {
		t.Errorf("after the largest comes %d", n.epoch)
	}
}

func TestPartitionsThatGaveRecordsGoLast(t *testing.T) {
	a, b, c := &fetchPart{}, &fetchPart{}, &fetchPart{}
	a.bytes = 1
	n := &session{order: []*fetchPart{a, b, c}}
	n.turn()
	if n.order[0] != b || n.order[1] != c || n.order[2] != a {
		t.Error("the order did not change")
	}
}
