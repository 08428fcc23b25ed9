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
				at, problem = offsetAt(ctx, stream, int(p.Partition), p.Timestamp, p.CurrentLeaderEpoch)
			}
			part.ErrorCode = int16(c.s.codeOf(problem))
			if problem == nil {
				part.Offset, part.Timestamp, part.LeaderEpoch = at.offset, at.timestamp, leaderEpoch
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

// foundOffset is an offset and the time of its record, -1 where there is none.
type foundOffset struct{ offset, timestamp int64 }

func offsetAt(ctx context.Context, stream *broker.Stream, shard int, timestamp int64, epoch int32) (foundOffset, error) {
	info, err := stream.Shard(shard)
	if err != nil {
		return foundOffset{}, err
	}
	if info.State == broker.StateRefused {
		return foundOffset{}, unavailable(stream, info)
	}
	switch {
	case epoch > leaderEpoch:
		return foundOffset{}, refuse(codeUnknownLeaderEpoch, "this server has been the leader since epoch 0")
	case timestamp == offsetsLatest:
		return foundOffset{int64(info.Next), -1}, nil
	case timestamp == offsetsEarliest:
		return foundOffset{int64(info.Base), -1}, nil
	case timestamp < 0:
		return foundOffset{}, refuse(codeUnsupportedVersion, "of the timestamps below zero, -1 and -2 are supported")
	case timestamp > math.MaxInt64/1000:
		return foundOffset{-1, -1}, nil // after every record there can be
	}
	return offsetAtTime(ctx, stream, shard, uint64(timestamp)*1000)
}

// offsetAtTime finds the first record that is not older than micros.
func offsetAtTime(ctx context.Context, stream *broker.Stream, shard int, micros uint64) (foundOffset, error) {
	for {
		offset, err := stream.Resolve(ctx, shard, broker.AtTime(micros))
		if err != nil {
			return foundOffset{}, err
		}
		page, err := stream.Read(ctx, shard, offset, 1, 1)
		if is[*broker.CursorTooOldError](err) {
			continue // trimmed in between: the base rises each time
		}
		if err != nil {
			return foundOffset{}, err
		}
		if len(page.Records) == 0 {
			return foundOffset{-1, -1}, nil
		}
		first := page.Records[0]
		return foundOffset{int64(first.Offset), timestampMillis(first.TimestampMicros)}, nil
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
			end, problem := int64(-1), err
			if problem == nil {
				end, problem = endOfEpoch(stream, int(p.Partition), p.LeaderEpoch, p.CurrentLeaderEpoch)
			}
			part.ErrorCode = int16(c.s.codeOf(problem))
			if end >= 0 {
				part.LeaderEpoch, part.EndOffset = leaderEpoch, end
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

// endOfEpoch is the offset after the last one of an epoch, -1 for an epoch that never
// was.
func endOfEpoch(stream *broker.Stream, shard int, asked, current int32) (int64, error) {
	info, err := stream.Shard(shard)
	if err != nil {
		return -1, err
	}
	switch {
	case info.State == broker.StateRefused:
		return -1, unavailable(stream, info)
	case current > leaderEpoch:
		return -1, refuse(codeUnknownLeaderEpoch, "this server has been the leader since epoch 0")
	case asked != leaderEpoch:
		return -1, nil
	}
	return int64(info.Next), nil
}
