package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// runtimeEnds is a container runtime that says itself why it ends.
var runtimeEnds = &diagnose.Rule{
	ID: "runtime-ends", Layer: diagnose.LayerRuntime, Title: "the container runtime keeps exiting, and logs why",
	Doc: `containerd, dockerd and CRI-O read their configuration at their start and end where it does not parse, is of a newer version, or names a plugin or a storage driver that does not work here; and where their disk is full or another process holds their socket. The last line says which. systemd starts them again for a while (dockerd three times) and then leaves them.
Told from one that was killed or stopped by that line; from a full disk, which has a cause of its own, by node-disk.`,
	Fix: probe.Fix{
		Says: "Put right what the line names, then start the runtime.",
		Manifest: []string{
			"ssh {node} sudo journalctl -u {runtime} -n 50 --no-pager",
			"ssh {node} sudo ls -l /etc/containerd/config.toml /etc/docker/daemon.json /etc/crio  # which of them was changed lately",
		},
		OnlyIf: []probe.Conditional{
			{If: "what the line names is put right", Manifest: []string{"ssh {node} sudo systemctl restart {runtime}"}},
		},
		Radius: "this node only; containers outlive a restart of containerd or CRI-O. restarting Docker's containerd stops them unless live-restore is set{together}",
	},
	Explains: append([]string{"containerd-dead", "docker-hangs", "runtime-hangs", "docker-lost-containerd",
		"kubelet-ends"}, stale...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		gone := []string{"refused", "missing"}
		var out []diagnose.Case
		for service, down := range map[string][]diagnose.Finding{
			logs.ServiceContainerd: diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.Because(gone...)),
			logs.ServiceDocker:     diagnose.Keep(f.Failed(runtime.DockerHealth.ID), diagnose.Because(gone...)),
			logs.ServiceCRIO:       diagnose.Keep(f.Failed(runtime.CRIHealth.ID), diagnose.Because(gone...)),
		} {
			lines := evidence.ServiceEnds(f, service)
			if len(lines) == 0 || evidence.ShownElsewhere(f, lines[0]) {
				continue
			}
			c := diagnose.Case{
				About: service, Says: fmt.Sprintf("%s on {node} does not stay up: %s", service, lines[0].Saw),
				For:    slices.Concat(diagnose.Clues(evidence.EndWeight(lines[0], len(down) > 0), lines), diagnose.Shows(down)),
				Covers: runtimeGone,
			}
			if service == logs.ServiceContainerd {
				c.Against = diagnose.Suggests(diagnose.Good(f, runtime.ContainerdHealth.ID)) // it has been started since
			}
			out = append(out, c)
		}
		slices.SortFunc(out, func(a, b diagnose.Case) int { return len(a.About) - len(b.About) })
		return out
	},
}
