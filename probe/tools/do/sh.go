package do

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// searched is where programs are: NixOS and Flatcar have theirs at the end.
const searched = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/run/current-system/sw/bin"

// shell says which shell is wanted.
type shell tools.ShArgs

// runShell runs the one tool that changes nothing by itself and lets its user change
// everything: a shell on the node.
func runShell(ctx context.Context, j *probe.Job, a *tools.ShArgs) probe.Result {
	return shell(*a).run(ctx, j)
}
