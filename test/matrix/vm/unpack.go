package vm

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const (
	imageName   = "vmlinuz"
	modulesName = "modules"
)

// moduleParts are the parts of a module tree that filesystems and virtio disks need; the
// driver of NVMe disks is built in.
var moduleParts = []string{"arch", "crypto", "drivers/block", "drivers/virtio", "fs", "lib"}

// unpack takes the kernel out of a package, and what disks and filesystems need of its modules.
// The paths in the result are relative to dir.
func unpack(ctx context.Context, deb, dir string) (Kernel, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return Kernel{}, err
	}
	if err := cmd.Start(); err != nil {
		return Kernel{}, err
	}
	k, err := unpackTar(pipe, dir)
	if err != nil {
		cancel()
	}
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return Kernel{}, err
	}
	if k.Image == "" {
		return Kernel{}, errors.New("there is no vmlinuz in the package")
	}
	if k.Modules != "" {
		// The packages come without the table of dependencies.
		if _, err := output(ctx, dir, "depmod", "-b", filepath.Join(dir, k.Modules), k.Release); err != nil {
			return Kernel{}, err
		}
	}
	return k, nil
}

func unpackTar(r io.Reader, dir string) (k Kernel, err error) {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return k, nil
		}
		if err != nil {
			return k, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/usr")
		switch release, ok := imageRelease(name); {
		case ok:
			k.Image, k.Release = imageName, release
			err = writeFile(filepath.Join(dir, imageName), archive)
		case isWantedModule(name):
			k.Modules = modulesName
			err = writeFile(filepath.Join(dir, modulesName, filepath.FromSlash(name)), archive)
		}
		if err != nil {
			return k, err
		}
	}
}

// imageRelease knows a kernel by its name, which is /boot/vmlinuz-RELEASE in packages
// that hold everything and /lib/modules/RELEASE/vmlinuz in those that hold it alone.
func imageRelease(name string) (release string, ok bool) {
	if release, ok := strings.CutPrefix(name, "/boot/vmlinuz-"); ok {
		return release, true
	}
	if ok, err := path.Match("/lib/modules/*/vmlinuz", name); ok && err == nil {
		return path.Base(path.Dir(name)), true
	}
	return "", false
}

// isWantedModule: /lib/modules/RELEASE/kernel/PART/…, and the lists beside them.
func isWantedModule(name string) bool {
	rest, ok := strings.CutPrefix(name, "/lib/modules/")
	if !ok {
		return false
	}
	_, rest, _ = strings.Cut(rest, "/")
	if strings.HasPrefix(rest, "modules.") {
		return true
	}
	for _, part := range moduleParts {
		if strings.HasPrefix(rest, "kernel/"+part+"/") {
			return true
		}
	}
	return false
}

// writeFile makes a file, and the directories above it.
func writeFile(path string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// NoModuleError says that a kernel has no module of a name, nor the code built in.
type NoModuleError struct {
	Kernel Kernel
	Module string
	Cause  error
}

// Error names the module and the package.
func (e *NoModuleError) Error() string {
	if e.Kernel.Modules == "" {
		return fmt.Sprintf("%s holds the kernel alone, without the module %s", e.Kernel.Package, e.Module)
	}
	return fmt.Sprintf("%s has no module %s: %v", e.Kernel.Package, e.Module, e.Cause)
}

// Unwrap gives the cause.
func (e *NoModuleError) Unwrap() error { return e.Cause }

// LoadOrder returns the files of a module and of what it depends on, in the order of
// loading, uncompressed, on the host; none when the code is built in. Compressed ones are
// decompressed into dir. The order is asked for and not known in advance: it has changed
// within one stable series.
func (k Kernel) LoadOrder(ctx context.Context, module, dir string) ([]string, error) {
	if k.Modules == "" {
		return nil, &NoModuleError{Kernel: k, Module: module}
	}
	if err := Need("modprobe", "xz"); err != nil {
		return nil, err
	}
	shown, err := output(ctx, dir, "modprobe", "-d", k.Modules, "-S", k.Release, "--show-depends", module)
	if err != nil {
		return nil, &NoModuleError{Kernel: k, Module: module, Cause: err}
	}
	var order []string
	for line := range strings.Lines(shown) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "insmod" {
			continue // "builtin xfs"
		}
		file, err := decompress(ctx, f[1], dir)
		if err != nil {
			return nil, err
		}
		order = append(order, file)
	}
	return order, nil
}

// decompress returns a file as it is, or what it holds as a file in dir.
func decompress(ctx context.Context, file, dir string) (string, error) {
	plain, compressed := strings.CutSuffix(file, ".xz")
	if !compressed {
		return file, nil
	}
	content, err := output(ctx, "", "xz", "--decompress", "--stdout", file)
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, filepath.Base(plain))
	return target, os.WriteFile(target, []byte(content), fs.FileMode(0o644))
}
