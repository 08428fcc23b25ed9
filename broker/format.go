package broker

import "fmt"

// Format says what the payload of a stream's records is.
type Format uint8

const (
	// FormatRaw: the payload is the value.
	FormatRaw Format = iota
	// FormatKafka: the payload is an envelope of key, value and headers.
	FormatKafka
)

// String gives the format as settings and files write it.
func (f Format) String() string {
	if f == FormatKafka {
		return "kafka"
	}
	return "raw"
}

// ParseFormat reads "raw" or "kafka".
func ParseFormat(text string) (Format, error) {
	switch text {
	case "raw":
		return FormatRaw, nil
	case "kafka":
		return FormatKafka, nil
	}
	return FormatRaw, fmt.Errorf("format %q is neither raw nor kafka", text)
}
