package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The session epochs that are no number of a request: the first of a session, and
// the one that wants none, or ends the one it names.
const (
	epochNew   = 0
	epochFinal = -1
)

// fetchSessions is the first version with sessions.
const fetchSessions = 7

// fetchPart is a partition that is fetched. In a session it stays between requests.
type fetchPart struct {
	partKey
	offset   int64
	bytesMax int32
	// epoch is the leader epoch the client knows, -1 for none.
	epoch int32
	// answered are the bounds of the last answer that named the partition.
	answered bounds
	// What this request found.
	found
}

// bounds of a partition, -1 where they are not known.
type bounds struct{ start, next int64 }

type found struct {
	bounds
	err error
	// admitted says that the client knows the leader's epoch, or none.
	admitted bool
	// position is the offset to read next, once records were read.
	position uint64
	// pieces are the record batches, in the buffers of the call.
	pieces [][]byte
	bytes  int
}

func (c *conn) fetch(x *exchange) (*response, error) {
	request := kmsg.NewFetchRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	if x.version < fetchSessions {
		request.SessionID, request.SessionEpoch = 0, epochFinal
	}
	parts, s, result := c.fetchParts(&request)
	if result != codeNone {
		return c.fetchFailed(x, result), nil
	}
	incremental := s != nil
	if request.SessionEpoch == epochNew {
		s = c.s.sessions.open(c, parts)
		if s != nil {
			parts = s.order
		}
	}
	call := fetchCall{
		c: c, parts: parts,
		bytesMax: min(max(int(request.MaxBytes), 0), c.s.cfg.FetchBytesMax),
		bytesMin: int(request.MinBytes),
		wait:     min(time.Duration(request.MaxWaitMillis)*time.Millisecond, c.s.cfg.FetchWaitMax),
	}
	call.run()
	out := call.response(x, &request, s, incremental)
	if s != nil {
		s.turn()
	}
	return out, nil
}

// fetchParts gives what the request is about: its own list, or, with a session that
// goes on, all that is in the session.
func (c *conn) fetchParts(r *kmsg.FetchRequest) ([]*fetchPart, *session, code) {
	switch {
	case r.SessionEpoch == epochNew || r.SessionEpoch == epochFinal:
		if r.SessionID != 0 {
			c.s.sessions.drop(r.SessionID, c)
		}
		return requestedParts(r), nil, codeNone
	case r.SessionID == 0:
		return nil, nil, codeInvalidFetchSessionEpoch
	}
	s := c.s.sessions.find(r.SessionID, c)
	if s == nil {
		return nil, nil, codeFetchSessionIDNotFound
	}
	if s.epoch != r.SessionEpoch {
		return nil, nil, codeInvalidFetchSessionEpoch
	}
	s.forget(forgottenParts(r))
	s.add(requestedParts(r))
	if !c.s.sessions.recount(s) {
		return nil, nil, codeFetchSessionIDNotFound
	}
	return s.order, s, codeNone
}

func requestedParts(r *kmsg.FetchRequest) []*fetchPart {
	var parts []*fetchPart
	for _, t := range r.Topics {
		list := make([]fetchPart, len(t.Partitions))
		for i, p := range t.Partitions {
			list[i] = fetchPart{
				partKey: partKey{topic: t.Topic, index: p.Partition},
				offset:  p.FetchOffset, bytesMax: p.PartitionMaxBytes, epoch: p.CurrentLeaderEpoch,
				answered: bounds{start: -1, next: -1},
			}
			parts = append(parts, &list[i])
		}
	}
	return parts
}

func forgottenParts(r *kmsg.FetchRequest) []partKey {
	var keys []partKey
	for _, t := range r.ForgottenTopics {
		for _, index := range t.Partitions {
			keys = append(keys, partKey{topic: t.Topic, index: index})
		}
	}
	return keys
}
