package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// reader reads one JSON value where it lies: text and base64 are decoded in place,
// which is never longer than what was written, so that a batch costs no memory beside
// its body. It is stricter than encoding/json: names are exact and may not repeat
// (the callers see to that), and text is valid UTF-8.
type reader struct {
	rest []byte
}

var (
	errEnd     = errors.New("the JSON ends too early")
	errNotUTF8 = errors.New("text is not valid UTF-8; send it as base64")
)

func (r *reader) space() {
	for len(r.rest) > 0 {
		switch r.rest[0] {
		case ' ', '\t', '\r', '\n':
			r.rest = r.rest[1:]
		default:
			return
		}
	}
}

// next skips white space and takes c, if it comes next.
func (r *reader) next(c byte) bool {
	r.space()
	if len(r.rest) > 0 && r.rest[0] == c {
		r.rest = r.rest[1:]
		return true
	}
	return false
}

func (r *reader) expect(c byte, what string) error {
	if r.next(c) {
		return nil
	}
	if len(r.rest) == 0 {
		return errEnd
	}
	return fmt.Errorf("%q is where %s should be", rune(r.rest[0]), what)
}

// member moves to the next name of an object whose brace was taken: it gives the
// name with its colon taken, or more=false with the closing brace taken.
func (r *reader) member(first bool) (name []byte, more bool, err error) {
	if r.next('}') {
		return nil, false, nil
	}
	if !first {
		if err := r.expect(',', "',' or '}'"); err != nil {
			return nil, false, err
		}
	}
	if name, err = r.text(); err != nil {
		return nil, false, err
	}
	return name, true, r.expect(':', "':'")
}

// object takes an object: field takes the value of each member, and gives the bit that
// stands for the member, which may be there once. seen has the bits of all.
func (r *reader) object(field func(name []byte) (bit int, err error)) (seen int, err error) {
	if err := r.expect('{', "'{'"); err != nil {
		return 0, err
	}
	for first := true; ; first = false {
		name, more, err := r.member(first)
		if err != nil || !more {
			return seen, err
		}
		bit, err := field(name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", short(string(name)), err)
		}
		if seen&bit != 0 {
			return 0, fmt.Errorf("%s is there more than once", name)
		}
		seen |= bit
	}
}

// element moves to the next element of an array whose bracket was taken.
func (r *reader) element(first bool) (more bool, err error) {
	if r.next(']') {
		return false, nil
	}
	if !first {
		if err := r.expect(',', "',' or ']'"); err != nil {
			return false, err
		}
	}
	return true, nil
}

// word takes a literal such as null, if it comes next.
func (r *reader) word(literal string) bool {
	r.space()
	if len(r.rest) < len(literal) || string(r.rest[:len(literal)]) != literal {
		return false
	}
	r.rest = r.rest[len(literal):]
	return true
}

// boolean takes true or false.
func (r *reader) boolean() (bool, error) {
	switch {
	case r.word("true"):
		return true, nil
	case r.word("false"):
		return false, nil
	}
	return false, errors.New("true or false is needed")
}

// uint takes a whole number from 0 to max.
func (r *reader) uint(max uint64) (uint64, error) {
	r.space()
	n := 0
	for n < len(r.rest) && '0' <= r.rest[n] && r.rest[n] <= '9' {
		n++
	}
	digits := r.rest[:n]
	if n == 0 || n > 1 && digits[0] == '0' || n < len(r.rest) && (r.rest[n] == '.' || r.rest[n]|0x20 == 'e') {
		return 0, fmt.Errorf("a whole number from 0 to %d is needed", max)
	}
	value, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || value > max {
		return 0, fmt.Errorf("a whole number from 0 to %d is needed", max)
	}
	r.rest = r.rest[n:]
	return value, nil
}

// text takes a string.
func (r *reader) text() ([]byte, error) {
	if err := r.expect('"', "a string"); err != nil {
		return nil, err
	}
	for i, c := range r.rest {
		switch {
		case c == '"':
			return r.take(r.rest[:i], i+1)
		case c == '\\':
			return r.escaped(i)
		case c < ' ':
			return nil, errControl
		}
	}
	return nil, errEnd
}

var errControl = errors.New("a control character in a string has to be escaped")

// take gives text of which n bytes of input were used.
func (r *reader) take(text []byte, n int) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errNotUTF8
	}
	r.rest = r.rest[n:]
	return text, nil
}

// escaped goes on with a string whose first escape is at position at.
func (r *reader) escaped(at int) ([]byte, error) {
	from, to := at, at // the input position, and where decoded text ends
	in := r.rest
	for from < len(in) {
		c := in[from]
		switch {
		case c == '"':
			return r.take(in[:to], from+1)
		case c < ' ':
			return nil, errControl
		case c != '\\':
			in[to] = c
			from, to = from+1, to+1
			continue
		}
		char, n, err := escape(in[from:])
		if err != nil {
			return nil, err
		}
		from += n
		to += utf8.EncodeRune(in[to:from], char)
	}
	return nil, errEnd
}

// escape reads one escape and says how long it is.
func escape(in []byte) (rune, int, error) {
	if len(in) < 2 {
		return 0, 0, errEnd
	}
	switch c := in[1]; c {
	case '"', '\\', '/':
		return rune(c), 2, nil
	case 'b':
		return '\b', 2, nil
	case 'f':
		return '\f', 2, nil
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case 'u':
		return unicodeEscape(in)
	default:
		return 0, 0, fmt.Errorf("a backslash before %q is no escape", rune(c))
	}
}

func unicodeEscape(in []byte) (rune, int, error) {
	high, err := hex4(in)
	if err != nil || !utf16.IsSurrogate(high) {
		return high, 6, err
	}
	if len(in) < 12 || in[6] != '\\' || in[7] != 'u' {
		return 0, 0, errNotUTF8
	}
	low, err := hex4(in[6:])
	if err != nil {
		return 0, 0, err
	}
	char := utf16.DecodeRune(high, low)
	if char == utf8.RuneError {
		return 0, 0, errNotUTF8
	}
	return char, 12, nil
}

// hex4 reads the four digits behind a \u.
func hex4(in []byte) (rune, error) {
	if len(in) < 6 {
		return 0, errEnd
	}
	value, err := strconv.ParseUint(string(in[2:6]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("\\u%s is no escape", strconv.QuoteToASCII(string(in[2:6])))
	}
	return rune(value), nil
}

// base64 takes a string and decodes it.
func (r *reader) base64() ([]byte, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	// Decoding in place: three bytes are written where four were read.
	n, err := base64.StdEncoding.Strict().Decode(text, text)
	if err != nil {
		return nil, errors.New("base64 in the standard alphabet with padding is needed")
	}
	return text[:n], nil
}

// end says that only white space is left.
func (r *reader) end() error {
	if r.space(); len(r.rest) > 0 {
		return fmt.Errorf("%q comes after the end of the JSON", rune(r.rest[0]))
	}
	return nil
}
