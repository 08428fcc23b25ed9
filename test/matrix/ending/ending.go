package ending

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context ends when this process is asked to end: interrupted, terminated, or left by its
// terminal, unless it was started so that it outlives that, as by nohup.
func Context() (ctx context.Context, stop context.CancelFunc) {
	asked := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		asked = append(asked, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), asked...)
}
