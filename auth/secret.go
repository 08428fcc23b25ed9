package auth

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of secrets, in bytes, and of their hashes.
const (
	// SecretMin is the shortest secret that is hashed.
	SecretMin = 16
	// SecretMax is the longest secret that is hashed or looked at.
	SecretMax = 256
	// IterationsWritten is what HashSecret uses: about 0.1 s on a core of today.
	IterationsWritten = 600_000
	// IterationsMin and IterationsMax bound what a file may ask for.
	IterationsMin = 1_000
	IterationsMax = 10_000_000

	// slowScheme hashes secrets that somebody chose, fastScheme those that NewSecret
	// made: 256 random bits cannot be found by trying, however quick a trial is.
	slowScheme = "pbkdf2-sha256"
	fastScheme = "sha256"
	hashForms  = slowScheme + "$ITERATIONS$SALT$HASH nor " + fastScheme + "$SALT$HASH"

	saltMin = 16
	saltMax = 64
)

// hash64 is the base64 of salts and hashes: one text per value.
func hash64() *base64.Encoding { return base64.RawStdEncoding.Strict() }

// secretHash is a hash as the file has it.
type secretHash struct {
	text string
	// iterations are 0 in the fast scheme.
	iterations int
	salt, sum  []byte
}

// fast says that comparing with the hash costs next to nothing.
func (h secretHash) fast() bool { return h.iterations == 0 }

func (h secretHash) scheme() string {
	if h.fast() {
		return fastScheme
	}
	return slowScheme
}

// HashSecret hashes a secret under a random salt for the credentials file. The
// secret is SecretMin to SecretMax visible ASCII bytes, so that every client can
// send it; else the error is a *SecretError.
func HashSecret(secret string) (string, error) {
	if problem := secretProblem(secret); problem != "" {
		return "", &SecretError{Problem: problem}
	}
	salt := newSalt()
	sum, err := derive(secret, salt, IterationsWritten)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s$%d$%s$%s", slowScheme, IterationsWritten, hash64().EncodeToString(salt), hash64().EncodeToString(sum)), nil
}

// HashGenerated is HashSecret for a secret that NewSecret made, with a hash that is
// compared in microseconds. Anything that has not the form of one is refused with a
// *SecretError; that it is random is for the caller to know.
func HashGenerated(secret string) (string, error) {
	if random, err := base64.RawURLEncoding.Strict().DecodeString(secret); err != nil || len(random) != generatedBytes {
		return "", &SecretError{Problem: "is none that was made here"}
	}
	salt := newSalt()
	return strings.Join([]string{fastScheme, hash64().EncodeToString(salt), hash64().EncodeToString(digestFast(secret, salt))}, "$"), nil
}

func newSalt() []byte {
	salt := make([]byte, saltMin)
	_, _ = rand.Read(salt) // never fails: it ends the process instead
	return salt
}

// generatedBytes are the random bytes of a secret that is made.
const generatedBytes = 32

// NewSecret makes a random secret of 256 bits.
func NewSecret() string {
	var random [generatedBytes]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// Token is the bearer token of a name and its secret.
func Token(name, secret string) string { return name + "." + secret }

func secretProblem(secret string) string {
	if len(secret) < SecretMin || len(secret) > SecretMax {
		return fmt.Sprintf("has %d bytes; %d to %d are allowed", len(secret), SecretMin, SecretMax)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "has a byte that is no visible ASCII character, and not every client could send it"
	}
	return ""
}

func derive(secret string, salt []byte, iterations int) ([]byte, error) {
	sum, err := pbkdf2.Key(sha256.New, secret, salt, iterations, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving a hash from the secret: %w", err)
	}
	return sum, nil
}

// digestFast is the hash of the fast scheme.
func digestFast(secret string, salt []byte) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), secret...))
	return sum[:]
}

// parseHash reads "pbkdf2-sha256$iterations$salt$hash" or "sha256$salt$hash". Its
// errors quote nothing: the text may be a secret that somebody wrote where its hash
// belongs.
func parseHash(text string) (secretHash, error) {
	h := secretHash{text: text}
	parts := strings.Split(text, "$")
	switch {
	case len(parts) == 3 && parts[0] == fastScheme:
	case len(parts) == 4 && parts[0] == slowScheme:
		iterations, err := strconv.ParseUint(parts[1], 10, 31)
		if err != nil || iterations < IterationsMin || iterations > IterationsMax {
			return secretHash{}, fmt.Errorf("the iterations of the hash are no number from %d to %d", IterationsMin, IterationsMax)
		}
		h.iterations = int(iterations)
	default:
		return secretHash{}, errors.New("the second field is neither " + hashForms + "; a plain secret is never written here, felixd credentials add hashes it")
	}
	salt, sum := parts[len(parts)-2], parts[len(parts)-1]
	var err error
	if h.salt, err = hash64().DecodeString(salt); err != nil || len(h.salt) < saltMin || len(h.salt) > saltMax {
		return secretHash{}, fmt.Errorf("the salt of the hash is not %d to %d bytes in standard base64 without padding", saltMin, saltMax)
	}
	if h.sum, err = hash64().DecodeString(sum); err != nil || len(h.sum) != sha256.Size {
		return secretHash{}, fmt.Errorf("the hash is not %d bytes in standard base64 without padding", sha256.Size)
	}
	return h, nil
}
