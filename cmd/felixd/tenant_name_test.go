package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// Packages auth and broker know nothing of each other, and each has the rule for a name
// written down. A grant whose tenant no stream can have would be of no use, and a tenant
// that no grant can name could be had with * alone.
func TestCredentialsAndStreamsAgreeOnWhatANameIs(t *testing.T) {
	texts := []string{""}
	for _, most := range []int{auth.NameMax, broker.NamePartMax} {
		texts = append(texts, strings.Repeat("n", most), strings.Repeat("n", most+1))
	}
	for c := range 256 {
		texts = append(texts, "a"+string([]byte{byte(c)})+"b")
	}
	secret := auth.NewSecret()
	// What passes for good gets as far as the file, which cannot be made.
	path := filepath.Join(t.TempDir(), "missing", "credentials")
	accepts := func(name, tenant string) bool {
		t.Helper()
		err := auth.AddGenerated(path, name, secret, []string{"read:" + tenant})
		var refused *auth.PrincipalError
		if unwritten := (*auth.FileError)(nil); !errors.As(err, &refused) && !errors.As(err, &unwritten) {
			t.Fatal(err)
		}
		return refused == nil
	}
	valid := 0
	for _, text := range texts {
		stream := broker.StreamName{Tenant: text, Namespace: "n", Stream: "s"}.Validate() == nil
		if asName, asTenant := accepts(text, "t"), accepts("p", text); stream != asName || stream != asTenant {
			t.Errorf("%q (%d bytes): a stream's name takes it: %v, a principal's: %v, a grant's tenant: %v", text, len(text), stream, asName, asTenant)
		}
		if stream {
			valid++
		}
	}
	if valid != 64+2 {
		t.Errorf("%d of the names are valid", valid)
	}
}
