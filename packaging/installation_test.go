package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// onCopy runs a script as root of this machine's own system, of which it changes a
// copy: everything it writes is gone when it ends. There is no network, and no systemd
// that would start anything. /packages has the packages.
const onCopy = `
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/system"
mount --rbind /proc "$1/system/proc"
mount --rbind /dev "$1/system/dev"
mount -t tmpfs none "$1/system/run"
mount -t tmpfs none "$1/system/tmp"
mkdir "$1/system/packages"
mount --bind "$2" "$1/system/packages"
`

// copied gives a command that runs a script on such a copy, or skips.
func copied(t *testing.T, packages, script string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a copy of the system to install into takes root")
	}
	dir, err := os.MkdirTemp("", "felix-installation-") // a test's own may hold a comma, which separates options of a mount
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) }) // the mounts were those of a namespace that is gone
	inside := func(script string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", onCopy+script, "sh", dir, packages)
	}
	if out, err := inside(`chroot "$1/system" dpkg --version`).CombinedOutput(); err != nil {
		t.Skipf("no copy of the system can be made here: %v\n%s", err, out)
	}
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return inside(`cp "` + path + `" "$1/system/script"; cd /; exec chroot "$1/system" sh -eux /script`)
}

// installing is what people do with the package, in the words of the document, and
// what has to be true in between.
const installing = `
cd /packages
INSTALL
getent passwd felix
test "$(stat -c '%a %U:%G' /etc/felix)" = '750 root:felix'
test "$(stat -c '%a %U:%G' /etc/felix/felix.env)" = '640 root:felix'
test -L /etc/systemd/system/multi-user.target.wants/felixd.service
test "$(command -v felixd)" = /usr/bin/felixd
mkdir -p /var/lib/felix && chown felix:felix /var/lib/felix
runuser -u felix -- felixd log write --dir /var/lib/felix/log --records 100 --clean-shutdown
test ! -e /usr/share/man/man1/felixd.1.gz || gzip -t /usr/share/man/man1/felixd.1.gz

# An upgrade keeps the administrator's settings and choice.
echo 'FELIX_LOG_LEVEL=debug' >> /etc/felix/felix.env
systemctl disable felixd
dpkg -i felixd_*.deb
grep FELIX_LOG_LEVEL=debug /etc/felix/felix.env
test ! -e /etc/systemd/system/multi-user.target.wants/felixd.service

# Removed, then purged: the data stays, and so does who owns it.
dpkg --remove felixd
test ! -e /usr/bin/felixd
test -e /etc/felix/felix.env
dpkg --purge felixd
test ! -e /etc/felix/felix.env
test -e /var/lib/felix/log
getent passwd felix

# Where systemd's tool is not, adduser makes the user.
if command -v adduser && tool=$(command -v systemd-sysusers); then
  userdel felix
  mv "$tool" /tmp/
  dpkg -i felixd_*.deb
  test "$(getent passwd felix | cut -d: -f6)" = /var/lib/felix
  getent group felix
fi
`

func (p packages) checkInstallation(t *testing.T) {
	lines := commandsIn(t, "docs/packaging.md", "sudo apt-get install ")
	install := strings.Replace(installing, "INSTALL", strings.TrimPrefix(lines[0], "sudo "), 1)
	var stdout, stderr bytes.Buffer
	run := copied(t, p.dir, install)
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	if want := "felixd: /var/lib/felix and the user felix stay"; !strings.Contains(stderr.String(), want) {
		t.Errorf("a purge does not say %q:\n%s", want, stderr.String())
	}
}
