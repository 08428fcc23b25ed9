package kafka

import (
	"context"
	"errors"
	"strings"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// rule gives the errors it matches a code.
type rule struct {
	match func(error) bool
	code  code
}

// is matches errors of type E, however they are wrapped.
func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// rules is the table of what clients are told. The first rule that matches counts,
// so that what a wrapper says goes before what is in it. Codes are chosen by what
// clients do: after KAFKA_STORAGE_ERROR and NOT_LEADER_OR_FOLLOWER they ask for the
// metadata again and retry, after REQUEST_TIMED_OUT they retry, after
// OFFSET_OUT_OF_RANGE they reset their position; the others they report.
func rules() []rule {
	return []rule{
		// The shard does not serve, and may after a restart or a repair.
		{is[*broker.UnavailableError], codeKafkaStorageError},
		// Whether the records are stored is not known.
		{is[*engine.UnknownOutcomeError], codeRequestTimedOut},
		// Nothing was stored; later it may be.
		{is[*engine.BackPressureError], codeRequestTimedOut},
		{is[*broker.BlockedError], codeRequestTimedOut},
		{is[*broker.MemoryError], codeRequestTimedOut},
		{is[*broker.ClosedError], codeNotLeaderOrFollower},
		{is[*broker.DeletedError], codeUnknownTopicOrPartition},
		{is[*broker.UnfinishedError], codeUnknownTopicOrPartition},

		{is[*broker.NotFoundError], codeUnknownTopicOrPartition},
		{is[*broker.NoShardError], codeUnknownTopicOrPartition},
		{is[*broker.NameError], codeInvalidTopic},
		{is[*broker.ConflictError], codeTopicAlreadyExists},
		{is[*broker.NoStorageError], codeInvalidConfig},
		{is[*broker.InvalidError], codeInvalidRequest},
		{is[*broker.TooLargeError], codeMessageTooLarge},
		{is[*broker.LimitError], codePolicyViolation},
		{is[*broker.FormatError], codeInvalidRecord},
		{is[*broker.EnvelopeError], codeCorruptMessage},
		{is[*broker.CursorTooOldError], codeOffsetOutOfRange},
		{is[*broker.CursorInFutureError], codeOffsetOutOfRange},

		{is[*broker.DefinitionError], codeKafkaStorageError},
		{is[*engine.PoisonedError], codeKafkaStorageError},
		{is[*engine.BackendLostError], codeKafkaStorageError},
		// A full disk is a state that ends, so that producers keep trying.
		{func(err error) bool { return errors.Is(err, engine.ErrFull) }, codeKafkaStorageError},
		{is[*engine.TrimmedError], codeOffsetOutOfRange},
		{is[*engine.InvalidRangeError], codeInvalidRequest},
		{is[*engine.UnsupportedError], codeInvalidRecord},
		// Producers send what is missing first, if they have it.
		{refuses(engine.SequenceGap), codeOutOfOrderSequence},
		// Producers begin anew, with another epoch or id.
		{refuses(engine.SequenceUnknown), codeUnknownProducerID},
		// Producers take this as stored, which it is: all they wrote up to their newest
		// batch is acknowledged.
		{refuses(engine.SequenceExpired), codeDuplicateSequence},
		// The same sequence with other records: trying again does not help.
		{is[*engine.SequenceError], codeInvalidRecord},
		{is[*engine.ExhaustedError], codePolicyViolation},
		{is[*engine.ClosedError], codeNotLeaderOrFollower},
		{is[*engine.ShardMismatchError], codeKafkaStorageError},
		{is[*engine.AlreadyOpenError], codeKafkaStorageError},
		{is[*engine.DeletingError], codeKafkaStorageError},
		{is[*engine.MarkerError], codeKafkaStorageError},
		{is[*engine.IncarnationError], codeKafkaStorageError},
		// Another broker leads the shard.
		{is[*engine.SupersededError], codeNotLeaderOrFollower},
		{is[*engine.PromisedError], codeNotLeaderOrFollower},
		{is[*engine.GivenUpError], codeNotLeaderOrFollower},
		{is[*engine.LogError], codeKafkaStorageError},

		{is[*auth.DeniedError], codeSASLAuthenticationFailed},
		{is[*auth.BusyError], codeSASLAuthenticationFailed},
		{func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, codeRequestTimedOut},
		{func(err error) bool { return errors.Is(err, context.Canceled) }, codeRequestTimedOut},
	}
}

// refuses matches batches of idempotent producers that are refused for this reason.
func refuses(reason engine.SequenceReason) func(error) bool {
	return func(err error) bool {
		var refused *engine.SequenceError
		return errors.As(err, &refused) && refused.Reason == reason
	}
}

// codeOf is the code for an error, codeNone for nil.
func (s *Server) codeOf(err error) code {
	if err == nil {
		return codeNone
	}
	// What this package refuses carries its code.
	if refused := (*failure)(nil); errors.As(err, &refused) {
		return refused.code
	}
	for _, r := range s.rules {
		if r.match(err) {
			return r.code
		}
	}
	return codeUnknownServerError
}

// messageOf is the text for an error, nil for none.
func messageOf(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) > messageMax {
		text = text[:messageMax]
	}
	text = strings.ToValidUTF8(text, "?")
	return &text
}

// messageMax bounds the text of an error in an answer, in bytes.
const messageMax = 1000
