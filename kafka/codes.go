package kafka

// code is a Kafka error code, as clients know it.
type code int16

// The codes this server answers with. Their numbers are the protocol's; a test
// compares them with the table of a client library.
const (
	codeUnknownServerError                 code = -1
	codeNone                               code = 0
	codeOffsetOutOfRange                   code = 1
	codeCorruptMessage                     code = 2
	codeUnknownTopicOrPartition            code = 3
	codeNotLeaderOrFollower                code = 6
	codeRequestTimedOut                    code = 7
	codeMessageTooLarge                    code = 10
	codeInvalidTopic                       code = 17
	codeInvalidRequiredAcks                code = 21
	codeTopicAuthorizationFailed           code = 29
	codeGroupAuthorizationFailed           code = 30
	codeInvalidTimestamp                   code = 32
	codeUnsupportedSASLMechanism           code = 33
	codeIllegalSASLState                   code = 34
	codeUnsupportedVersion                 code = 35
	codeTopicAlreadyExists                 code = 36
	codeInvalidPartitions                  code = 37
	codeInvalidReplicationFactor           code = 38
	codeInvalidReplicaAssignment           code = 39
	codeInvalidConfig                      code = 40
	codeInvalidRequest                     code = 42
	codeUnsupportedForMessageFormat        code = 43
	codePolicyViolation                    code = 44
	codeOutOfOrderSequence                 code = 45
	codeDuplicateSequence                  code = 46
	codeTransactionalIDAuthorizationFailed code = 53
	codeKafkaStorageError                  code = 56
	codeSASLAuthenticationFailed           code = 58
	codeUnknownProducerID                  code = 59
	codeFetchSessionIDNotFound             code = 70
	codeInvalidFetchSessionEpoch           code = 71
	codeFencedLeaderEpoch                  code = 74
	codeUnknownLeaderEpoch                 code = 75
	codeUnsupportedCompressionType         code = 76
	codeInvalidRecord                      code = 87
)

// failure is an error with the code that tells a client what to do about it. It is
// for what this package itself refuses; errors of other packages are given their
// code by the table in errors.go.
type failure struct {
	code code
	text string
	// err is what caused it, if anything did.
	err error
}

func (f *failure) Error() string { return f.text }

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.err }

func refuse(c code, text string) error { return &failure{code: c, text: text} }
