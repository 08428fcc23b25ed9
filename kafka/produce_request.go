package kafka

import (
	"fmt"
	"time"
)

// The versions of Produce that add something.
const (
	produceTransactionalID = 3
	produceLogStart        = 5
	produceErrorMessage    = 8
)

// The fewest bytes of a topic's and of a partition's entry in a Produce request.
const (
	produceTopicMin         = 6
	produceTopicMinFlexible = 3
	producePartMin          = 8
	producePartMinFlexible  = 6
)

// parse reads a Produce request. Names and records alias it.
func (p *produceCall) parse(w *wire, version int16, partitionsMax int) error {
	if version >= produceTransactionalID {
		_, null := w.text()
		p.transactional = !null
	}
	p.acks = w.int16()
	p.timeout = time.Duration(w.int32()) * time.Millisecond
	topicMin, partMin := produceTopicMin, producePartMin
	if w.flexible {
		topicMin, partMin = produceTopicMinFlexible, producePartMinFlexible
	}
	for range w.count(topicMin) {
		name, _ := w.text()
		topic := produceTopic{name: name, first: len(p.parts)}
		for range w.count(partMin) {
			index := w.int32()
			records, _ := w.bytes()
			w.tags()
			if len(p.parts) >= partitionsMax {
				return &requestError{fmt.Sprintf("a Produce request for more than %d partitions", partitionsMax)}
			}
			p.parts = append(p.parts, producePart{index: index, records: records})
		}
		w.tags()
		if w.bad || len(p.topics) >= partitionsMax {
			break
		}
		topic.end = len(p.parts)
		p.topics = append(p.topics, topic)
	}
	w.tags()
	if w.bad || len(w.src) > 0 {
		return &requestError{"a Produce request that does not end where it says"}
	}
	return nil
}
