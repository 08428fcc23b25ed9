//go:build !giouring

package uring

// DriverName is the driver this build opens rings with.
const DriverName = "native"

func openDriver(entries uint32, flags uint32) (driver, *openFailure) {
	return openMapped(systemKernel{}, entries, flags)
}
