package injector

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// byLocal is the access method for the machine on which this program runs. It starts the embedded probe as bySSH does,
// but without a login. The caller must verify that the machine is the node.
func byLocal(*Client) Open {
	return func(ctx context.Context, o Options) (*Session, error) {
		if runtime.GOOS != "linux" {
			return nil, refuse(facts.ReasonNoNode, "this machine runs %s: the probe cannot run on it", runtime.GOOS)
		}
		shell := func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return run(exec.CommandContext(ctx, "sh", "-c", script), in, out, errs)
		}
		isTheNode := func(string) *PlacementError { return nil }
		s, err := upload(ctx, o, MethodLocal, "on this machine", view{root: "/", proc: "/proc"}, shell, isTheNode)
		if failed, ok := errors.AsType[*uploadError](err); ok {
			return nil, localFailed(failed)
		}
		return s, err
	}
}

// localFailed returns why the probe could not be uploaded to this machine.
func localFailed(failed *uploadError) *PlacementError {
	if errors.Is(failed.err, errStalled) {
		return waited(facts.ReasonShell, "the shell of this machine hangs: %v", failed)
	}
	return refuse(facts.ReasonShell, "the shell of this machine cannot receive the probe: %v", failed)
}
