//go:build !amd64 && !arm64

package seccomptest

const (
	// architectureName is in no profile: here none can be installed.
	architectureName = "an architecture whose calls are known"
	architecture     = 0
	numberMax        = 0
)

func numbers() map[string]uint32 { return nil }
