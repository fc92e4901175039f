package do

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// searched is the shell's PATH. On NixOS and Flatcar, programs are in the last folders.
const searched = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/run/current-system/sw/bin"

// shell selects the shell.
type shell tools.ShArgs

// runShell starts a shell on the node. It is the only tool that lets a user change the node.
func runShell(ctx context.Context, j *probe.Job, a *tools.ShArgs) probe.Result {
	return shell(*a).run(ctx, j)
}
