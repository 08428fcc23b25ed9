package main

import (
	"os/exec"
	"testing"
)

func TestDebianOrdersVersionsAsGoDoes(t *testing.T) {
	ordered := []struct{ version, debian string }{
		{"0.0.0-20261130214707-56bbc87abcde", "0.0.0~20261130214707.56bbc87abcde"},
		{"1.2.0-rc.1", "1.2.0~rc.1"},
		{"1.2.0", "1.2.0"},
		{"1.2.0+dirty", "1.2.0+dirty"},
		{"1.2.1-0.20261201000000-0123456789ab", "1.2.1~0.20261201000000.0123456789ab"},
		{"1.2.1", "1.2.1"},
	}
	dpkg, missing := exec.LookPath("dpkg")
	for i, v := range ordered {
		if got := debianVersion(v.version); got != v.debian {
			t.Errorf("%s becomes %s, want %s", v.version, got, v.debian)
		}
		if i == 0 || missing != nil {
			continue
		}
		if err := exec.CommandContext(t.Context(), dpkg, "--compare-versions", ordered[i-1].debian, "lt", v.debian).Run(); err != nil {
			t.Errorf("dpkg does not find %s older than %s", ordered[i-1].debian, v.debian)
		}
	}
}
