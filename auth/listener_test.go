package auth

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAListenerThatOthersReachNeedsAuthentication(t *testing.T) {
	names := map[string][]string{
		"localhost": {"127.0.0.1", "::1"}, "host": {"192.0.2.7"}, "mixed": {"127.0.0.1", "2001:db8::7"}, "mapped": {"::ffff:127.0.0.1"},
		"any": {"0.0.0.0"}, "none": {},
	}
	unknown := errors.New("no such host")
	resolve := func(host string) (addresses []netip.Addr, err error) {
		texts, known := names[host]
		if !known {
			return nil, unknown
		}
		for _, text := range texts {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		return addresses, nil
	}
	for addr, reached := range map[string]string{
		"127.0.0.1:8080": "", "127.9.9.9:8080": "", "[::1]:8080": "", "[::ffff:127.0.0.1]:80": "", "localhost:8080": "", "mapped:1": "", "[::1%lo]:80": "",
		":8080":               "every address",
		"0.0.0.0:8080":        "every address",
		"[::]:8080":           "every address",
		"[::ffff:0.0.0.0]:80": "every address",
		"any:8080":            "every address",
		"10.1.2.3:8080":       "10.1.2.3",
		"169.254.169.254:80":  "169.254.169.254",
		"[2001:db8::1]:8080":  "2001:db8::1",
		"[fe80::1%eth0]:8080": "fe80::1",
		"host:8080":           "192.0.2.7",
		"mixed:8080":          "2001:db8::7",
		"none:8080":           "without known addresses",
		"elsewhere:8080":      "without known addresses",
		"0:8080":              "without known addresses", // the system may take it for 0.0.0.0
		"127.0.0.1":           "no HOST:PORT",
		"":                    "no HOST:PORT",
		"::1:80":              "no HOST:PORT",
	} {
		err := checkExposed("http", addr, resolve)
		var exposed *ExposedError
		if reached == "" {
			if err != nil {
				t.Errorf("%s: %v", addr, err)
			}
			continue
		}
		if !errors.As(err, &exposed) || !strings.Contains(exposed.Reached, reached) {
			t.Errorf("%s: %v, want %q", addr, err, reached)
			continue
		}
		for _, word := range []string{"http", "--credentials-file", "127.0.0.1", "--insecure"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not mention %s", err, word)
			}
		}
		if strings.HasPrefix(addr, "elsewhere") != errors.Is(err, unknown) && addr != "0:8080" {
			t.Errorf("%s: the cause is %v", addr, exposed.Err)
		}
	}
}

func TestAuthenticationOrInsecureOpensAnyListener(t *testing.T) {
	for _, addr := range []string{":8080", "0.0.0.0:1", "nonsense"} {
		if err := CheckListener("kafka", addr, true, false); err != nil {
			t.Error(err)
		}
		if err := CheckListener("kafka", addr, false, true); err != nil {
			t.Error(err)
		}
		var exposed *ExposedError
		if err := CheckListener("kafka", addr, false, false); !errors.As(err, &exposed) || exposed.What != "kafka" || exposed.Addr != addr {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		if err := CheckListener("kafka", addr, false, false); err != nil {
			t.Error(err)
		}
	}
}
