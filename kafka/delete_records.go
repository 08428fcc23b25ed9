package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// deleteToEnd deletes all records there are.
const deleteToEnd = -1

func (c *conn) deleteRecords(x *exchange) (*response, error) {
	request := kmsg.NewDeleteRecordsRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	ctx, cancel := c.adminContext(request.TimeoutMillis)
	defer cancel()
	out := kmsg.NewDeleteRecordsResponse()
	for _, t := range request.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = t.Topic
		stream, err := c.stream(t.Topic, auth.Admin)
		for _, p := range t.Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition, part.LowWatermark = p.Partition, -1
			oldest, problem := uint64(0), err
			if problem == nil {
				oldest, problem = deleteBefore(ctx, stream, int(p.Partition), p.Offset)
			}
			part.ErrorCode = int16(c.s.codeOf(problem))
			if problem == nil {
				part.LowWatermark = int64(oldest)
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return c.reply(x, &out), nil
}

// deleteBefore makes what is below offset unreadable and gives the oldest offset.
func deleteBefore(ctx context.Context, stream *broker.Stream, shard int, offset int64) (uint64, error) {
	info, err := stream.Shard(shard)
	if err != nil {
		return 0, err
	}
	before := uint64(offset)
	switch {
	case info.State == broker.StateRefused:
		return 0, unavailable(stream, info)
	case offset == deleteToEnd:
		before = info.Next
	case offset < 0 || before > info.Next:
		return 0, refuse(codeOffsetOutOfRange, "records are deleted up to an offset that exists, or up to -1, the end")
	case before <= info.Base:
		return info.Base, nil
	}
	return stream.DeleteRecords(ctx, shard, before)
}

// adminContext bounds a change by what the client gives it. It does not end with the
// client's connection: a change that has begun is carried out.
func (c *conn) adminContext(millis int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.s.publishing, c.publishTimeout(time.Duration(millis)*time.Millisecond))
}
