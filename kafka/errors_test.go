package kafka

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// cases gives a sample of every error of the packages behind this one that a
// request can come to, and what a client is told.
func cases() map[string]errorCase {
	cause := errors.New("cause")
	return map[string]errorCase{
		"broker.NameError":           {&broker.NameError{}, codeInvalidTopic},
		"broker.NotFoundError":       {&broker.NotFoundError{}, codeUnknownTopicOrPartition},
		"broker.NoShardError":        {&broker.NoShardError{}, codeUnknownTopicOrPartition},
		"broker.ConflictError":       {&broker.ConflictError{}, codeTopicAlreadyExists},
		"broker.NoStorageError":      {&broker.NoStorageError{}, codeInvalidConfig},
		"broker.InvalidError":        {&broker.InvalidError{}, codeInvalidRequest},
		"broker.TooLargeError":       {&broker.TooLargeError{}, codeMessageTooLarge},
		"broker.LimitError":          {&broker.LimitError{}, codePolicyViolation},
		"broker.FormatError":         {&broker.FormatError{}, codeInvalidRecord},
		"broker.EnvelopeError":       {&broker.EnvelopeError{Err: cause}, codeCorruptMessage},
		"broker.CursorTooOldError":   {&broker.CursorTooOldError{}, codeOffsetOutOfRange},
		"broker.CursorInFutureError": {&broker.CursorInFutureError{}, codeOffsetOutOfRange},
		"broker.UnavailableError":    {&broker.UnavailableError{Err: &engine.ClosedError{}}, codeKafkaStorageError},
		"broker.DeletedError":        {&broker.DeletedError{}, codeUnknownTopicOrPartition},
		"broker.BlockedError":        {&broker.BlockedError{Cause: cause}, codeRequestTimedOut},
		"broker.MemoryError":         {&broker.MemoryError{}, codeRequestTimedOut},
		"broker.UnfinishedError":     {&broker.UnfinishedError{}, codeUnknownTopicOrPartition},
		"broker.DefinitionError":     {&broker.DefinitionError{Err: cause}, codeKafkaStorageError},
		"broker.ClosedError":         {&broker.ClosedError{}, codeNotLeaderOrFollower},

		"engine.ClosedError":         {&engine.ClosedError{}, codeNotLeaderOrFollower},
		"engine.PoisonedError":       {&engine.PoisonedError{Cause: &engine.FullError{Cause: cause}}, codeKafkaStorageError},
		"engine.FullError":           {&engine.FullError{Cause: cause}, codeKafkaStorageError},
		"engine.TrimmedError":        {&engine.TrimmedError{}, codeOffsetOutOfRange},
		"engine.InvalidRangeError":   {&engine.InvalidRangeError{}, codeInvalidRequest},
		"engine.UnsupportedError":    {&engine.UnsupportedError{}, codeInvalidRecord},
		"engine.SequenceError":       {&engine.SequenceError{Reason: engine.SequenceReused}, codeInvalidRecord},
		"engine.ExhaustedError":      {&engine.ExhaustedError{}, codePolicyViolation},
		"engine.BackPressureError":   {&engine.BackPressureError{Cause: cause}, codeRequestTimedOut},
		"engine.UnknownOutcomeError": {&engine.UnknownOutcomeError{Cause: context.Canceled}, codeRequestTimedOut},
		"engine.ShardMismatchError":  {&engine.ShardMismatchError{}, codeKafkaStorageError},
		"engine.AlreadyOpenError":    {&engine.AlreadyOpenError{}, codeKafkaStorageError},
		"engine.MarkerError":         {&engine.MarkerError{Err: cause}, codeKafkaStorageError},
		"engine.IncarnationError":    {&engine.IncarnationError{}, codeKafkaStorageError},
		"engine.SupersededError":     {&engine.SupersededError{}, codeNotLeaderOrFollower},
		"engine.PromisedError":       {&engine.PromisedError{}, codeNotLeaderOrFollower},
		"engine.GivenUpError":        {&engine.GivenUpError{}, codeNotLeaderOrFollower},
		"engine.DeletingError":       {&engine.DeletingError{}, codeKafkaStorageError},
		"engine.LogError":            {&engine.LogError{Err: fs.ErrPermission}, codeKafkaStorageError},
		"engine.BackendLostError":    {&engine.BackendLostError{Cause: cause}, codeKafkaStorageError},

		"auth.DeniedError": {&auth.DeniedError{}, codeSASLAuthenticationFailed},
		"auth.BusyError":   {&auth.BusyError{}, codeSASLAuthenticationFailed},
	}
}

type errorCase struct {
	err  error
	want code
}

func TestEveryErrorOfTheBrokerAndTheEngineHasItsCode(t *testing.T) {
	s := &Server{rules: rules()}
	known := cases()
	for name, c := range known {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err)} {
			if got := s.codeOf(err); got != c.want {
				t.Errorf("%s gives %d; expected %d", name, got, c.want)
			}
		}
	}
	var declared, listed []string
	for _, pkg := range []string{"broker", "engine"} {
		declared = append(declared, errorTypes(t, pkg)...)
	}
	for name := range maps.Keys(known) {
		if !strings.HasPrefix(name, "auth.") {
			listed = append(listed, name)
		}
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if diff := cmp.Diff(listed, declared); diff != "" {
		t.Errorf("(-with a code here +declared there):\n%s", diff)
	}
}

// notMet are the errors that no request here can come to. A type that is new is in
// neither list, and somebody has to decide.
func notMet() []string {
	return []string{
		// Opening a store gives these, before there is a server.
		"engine.BackendError", "engine.ConfigError", "engine.IdentityError", "engine.JournalPendingError",
		"engine.JournalUnavailableError", "engine.RegistrationError",
		// Replication, which no request here is.
		"engine.BelowCommitError", "engine.DivergedError", "engine.HistoryError", "engine.OutsideLogError",
		"engine.OffsetMismatchError", "engine.ShipmentGapError",
	}
}

// errorTypes are the exported types of a package with an Error method, but those
// that are not met.
func errorTypes(t *testing.T, pkg string) []string {
	t.Helper()
	var found []string
	entries, err := os.ReadDir("../" + pkg)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../"+pkg+"/"+entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "Error" {
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			name := pkg + "." + of.(*ast.Ident).Name
			if ast.IsExported(of.(*ast.Ident).Name) && !slices.Contains(notMet(), name) {
				found = append(found, name)
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("package %s has no error types", pkg)
	}
	return found
}

func TestErrorsWithoutARuleAreUnknownAndNoneIsNone(t *testing.T) {
	s := &Server{rules: rules()}
	for _, test := range []errorCase{
		{nil, codeNone},
		{errors.New("something else"), codeUnknownServerError},
		{context.DeadlineExceeded, codeRequestTimedOut},
		{refuse(codeInvalidConfig, "x"), codeInvalidConfig},
		{&engine.SequenceError{Reason: engine.SequenceGap}, codeOutOfOrderSequence},
		{&engine.SequenceError{Reason: engine.SequenceUnknown}, codeUnknownProducerID},
		{&engine.SequenceError{Reason: engine.SequenceExpired}, codeDuplicateSequence},
	} {
		if got := s.codeOf(test.err); got != test.want {
			t.Errorf("%v gives %d; expected %d", test.err, got, test.want)
		}
	}
}

// The codes that clients retry, and the ones they do not, decide between a record
// that is late and one that is lost.
func TestClientsRetryWhatMayGetBetter(t *testing.T) {
	for c, want := range map[code]error{
		codeOffsetOutOfRange: kerr.OffsetOutOfRange, codeCorruptMessage: kerr.CorruptMessage,
		codeUnknownTopicOrPartition: kerr.UnknownTopicOrPartition, codeNotLeaderOrFollower: kerr.NotLeaderForPartition,
		codeRequestTimedOut: kerr.RequestTimedOut, codeMessageTooLarge: kerr.MessageTooLarge, codeInvalidTopic: kerr.InvalidTopicException,
		codeInvalidRequiredAcks: kerr.InvalidRequiredAcks, codeTopicAuthorizationFailed: kerr.TopicAuthorizationFailed,
		codeInvalidTimestamp: kerr.InvalidTimestamp, codeUnsupportedSASLMechanism: kerr.UnsupportedSaslMechanism,
		codeIllegalSASLState: kerr.IllegalSaslState, codeUnsupportedVersion: kerr.UnsupportedVersion,
		codeTopicAlreadyExists: kerr.TopicAlreadyExists, codeInvalidPartitions: kerr.InvalidPartitions,
		codeInvalidReplicationFactor: kerr.InvalidReplicationFactor, codeInvalidReplicaAssignment: kerr.InvalidReplicaAssignment,
		codeInvalidConfig: kerr.InvalidConfig, codeInvalidRequest: kerr.InvalidRequest,
		codeUnsupportedForMessageFormat: kerr.UnsupportedForMessageFormat, codePolicyViolation: kerr.PolicyViolation, codeOutOfOrderSequence: kerr.OutOfOrderSequenceNumber,
		codeDuplicateSequence: kerr.DuplicateSequenceNumber, codeUnknownProducerID: kerr.UnknownProducerID,
		codeKafkaStorageError: kerr.KafkaStorageError, codeSASLAuthenticationFailed: kerr.SaslAuthenticationFailed,
		codeFetchSessionIDNotFound: kerr.FetchSessionIDNotFound, codeInvalidFetchSessionEpoch: kerr.InvalidFetchSessionEpoch,
		codeUnknownLeaderEpoch: kerr.UnknownLeaderEpoch, codeUnsupportedCompressionType: kerr.UnsupportedCompressionType,
		codeInvalidRecord: kerr.InvalidRecord, codeUnknownServerError: kerr.UnknownServerError,
	} {
		if got := kerr.ErrorForCode(int16(c)); got != want {
			t.Errorf("code %d is %v; expected %v", c, got, want)
		}
	}
	for _, c := range []code{codeKafkaStorageError, codeNotLeaderOrFollower, codeRequestTimedOut, codeUnknownTopicOrPartition} {
		if !kerr.IsRetriable(kerr.ErrorForCode(int16(c))) {
			t.Errorf("code %d is not retried", c)
		}
	}
	for _, c := range []code{codeInvalidRecord, codeMessageTooLarge, codePolicyViolation, codeTopicAuthorizationFailed, codeUnsupportedForMessageFormat} {
		if kerr.IsRetriable(kerr.ErrorForCode(int16(c))) {
			t.Errorf("code %d is retried", c)
		}
	}
}
