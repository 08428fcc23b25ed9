package kafka

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// The timestamps of ListOffsets that are no time.
const (
	offsetsLatest   = -1
	offsetsEarliest = -2
)

func (c *conn) listOffsets(x *exchange) (*response, error) {
	request := kmsg.NewListOffsetsRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.s.cfg.PublishTimeoutMax)
	defer cancel()
	out := kmsg.NewListOffsetsResponse()
	for _, t := range request.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		stream, err := c.stream(t.Topic, auth.Read)
		for _, p := range t.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.Offset, part.Timestamp, part.LeaderEpoch = p.Partition, -1, -1, -1
			at, problem := foundOffset{}, err
			if problem == nil {
				at, problem = offsetAt(ctx, stream, &p)
			}
			part.ErrorCode = int16(c.s.codeOf(problem))
			if problem == nil {
				part.Offset, part.Timestamp, part.LeaderEpoch = at.offset, at.timestamp, at.epoch
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

// foundOffset is an offset, the time of its record and its epoch, each -1 where there
// is none.
type foundOffset struct {
	offset, timestamp int64
	epoch             int32
}

// offsetAt finds the offset that is asked for.
func offsetAt(ctx context.Context, stream *broker.Stream, asked *kmsg.ListOffsetsRequestTopicPartition) (foundOffset, error) {
	shard := int(asked.Partition)
	info, err := stream.Shard(shard)
	if err != nil {
		return foundOffset{}, err
	}
	if info.State == broker.StateRefused {
		return foundOffset{}, unavailable(stream, info)
	}
	known, err := epochsFor(stream, shard, asked.CurrentLeaderEpoch)
	if err != nil {
		return foundOffset{}, err
	}
	found := foundOffset{-1, -1, noEpoch}
	switch timestamp := asked.Timestamp; {
	case timestamp == offsetsLatest:
		found.offset = int64(info.Next)
	case timestamp == offsetsEarliest:
		found.offset = int64(info.Base)
	case timestamp < 0:
		return foundOffset{}, refuse(codeUnsupportedVersion, "of the timestamps below zero, -1 and -2 are supported")
	case timestamp > math.MaxInt64/1000: // after every record there can be
	default:
		found.offset, found.timestamp, err = offsetAtTime(ctx, stream, shard, uint64(timestamp)*1000)
		if err == nil && found.offset >= int64(info.Next) { // newer than the epochs
			known, err = epochsOf(stream, shard)
		}
	}
	if err == nil && found.offset >= 0 {
		found.epoch, _ = known.at(uint64(found.offset))
	}
	return found, err
}

// offsetAtTime finds the first record that is not older than micros: its offset and
// its time, or -1 and -1.
func offsetAtTime(ctx context.Context, stream *broker.Stream, shard int, micros uint64) (found, timestamp int64, err error) {
	for {
		offset, err := stream.Resolve(ctx, shard, broker.AtTime(micros))
		if err != nil {
			return -1, -1, err
		}
		page, err := stream.Read(ctx, shard, offset, 1, 1)
		if is[*broker.CursorTooOldError](err) {
			continue // trimmed in between: the base rises each time
		}
		if err != nil {
			return -1, -1, err
		}
		if len(page.Records) == 0 {
			return -1, -1, nil
		}
		first := page.Records[0]
		return int64(first.Offset), timestampMillis(first.TimestampMicros), nil
	}
}

func (c *conn) offsetForLeaderEpoch(x *exchange) (*response, error) {
	request := kmsg.NewOffsetForLeaderEpochRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewOffsetForLeaderEpochResponse()
	for _, t := range request.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		stream, err := c.stream(t.Topic, auth.Read)
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition, part.LeaderEpoch, part.EndOffset = p.Partition, -1, -1
			problem := err
			if problem == nil {
				part.LeaderEpoch, part.EndOffset, problem = endOfEpoch(stream, int(p.Partition), p.LeaderEpoch, p.CurrentLeaderEpoch)
			}
			part.ErrorCode = int16(c.s.codeOf(problem))
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

// endOfEpoch answers as epochs.endOf does, for a client of a current epoch.
func endOfEpoch(stream *broker.Stream, shard int, asked, current int32) (epoch int32, end int64, err error) {
	info, err := stream.Shard(shard)
	if err != nil {
		return noEpoch, -1, err
	}
	if info.State == broker.StateRefused {
		return noEpoch, -1, unavailable(stream, info)
	}
	known, err := epochsFor(stream, shard, current)
	if err != nil {
		return noEpoch, -1, err
	}
	epoch, end = known.endOf(asked, info.Next)
	return epoch, end, nil
}
