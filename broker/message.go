package broker

// Message is what a publisher hands in and a reader gets back. A raw stream holds
// Value alone; a kafka stream holds all of it (see Envelope).
type Message struct {
	// Key is nil for none. An empty key is a key.
	Key []byte
	// Value is nil for a Kafka tombstone; a raw stream stores nil as empty.
	Value   []byte
	Headers []Header
	// TimestampMicros is microseconds since 1970; 0 takes the time of the append.
	TimestampMicros uint64
}

// Header is one header of a message. Keys may repeat; a nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is a message with its place.
type Record struct {
	Offset uint64
	Message
}
