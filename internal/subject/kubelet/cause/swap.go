package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// swapOff turns swap off, now and at boot, and starts the kubelet.
var swapOff = []string{
	"ssh {node} free -m  # what is swapped out has to fit into memory",
	"ssh {node} sudo swapoff -a",
	`ssh {node} "sudo sed -i.bak '/[[:space:]]swap[[:space:]]/ s/^[^#]/#&/' /etc/fstab; systemctl list-units --type swap --all"  # and 'sudo systemctl mask UNIT' there for each of that list`,
	"ssh {node} sudo systemctl restart {kubelet}",
}

// swapOn is incident 003a.
var swapOn = &diagnose.Rule{
	ID: "swap-on", Layer: diagnose.LayerMachine, Title: "swap is on, so the kubelet does not start",
	Doc: `A kubelet that is not told otherwise refuses to start while swap is on ("running with swap on is not supported") and is started again for ever. A kubelet that runs already is not touched, so the fault waits for the next reboot or restart: swapoff by hand lasts until then, an entry in /etc/fstab or a swap unit brings swap back.
Told from a node that is cut off or powered off by the node's own files, read over ssh, and by what its ports answer to a neighbour; from a kubelet that died of something else by swap being on at all: that one would not start either until swap is off.`,
	Fix: probe.Fix{
		Says:     "Turn swap off now, take away what turns it on at boot, and start the kubelet.",
		Manifest: swapOff,
		Radius:   "this node only; swapoff moves what was swapped out back into memory, which takes seconds to minutes; running pods stay{together}",
	},
	Wants: []string{kubelet.KubeletHealth.ID}, Explains: []string{"kubelet-dead", "kubelet-silent"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		swap := f.Failed(host.NodeSwap.ID)
		if len(swap) == 0 {
			return nil
		}
		on := strings.Join(diagnose.ListOf(swap[0], host.FactSwaps), ", ")
		ended := evidence.ServiceEnds(f, logs.ServiceKubelet, logs.SaysSwapOn)
		c := diagnose.Case{For: slices.Concat(diagnose.Suggests(swap), diagnose.Suggests(ended)),
			Covers: evidence.KubeletGone}
		if k := evidence.KubeletHere(f); k.Dead() {
			c.Says = fmt.Sprintf("swap is on (%s), the kubelet does not start with it, and it does not run", on)
			c.For = append(c.For, diagnose.Hints(k.Refused)...)
		} else {
			c.Says = fmt.Sprintf("swap is on (%s): the kubelet that runs now will not start again, be it after its own restart or a reboot", on)
		}
		return []diagnose.Case{c}
	},
}

// swapReturns is the same the day before.
var swapReturns = &diagnose.Rule{
	ID: "swap-returns", Layer: diagnose.LayerMachine, Title: "swap returns at the next reboot, and the kubelet will not start",
	Doc: `Swap was turned off by hand, and /etc/fstab, a systemd swap unit or a zram generator turns it on at the next boot. Nothing is broken tonight: this is the cause of the next night, when the node comes back from a reboot and its kubelet ends with "running with swap on is not supported". It says nothing about other faults of this run.`,
	Fix: probe.Fix{
		Says: "Take away what turns swap on at boot.",
		Manifest: []string{
			`ssh {node} "sudo sed -i.bak '/[[:space:]]swap[[:space:]]/ s/^[^#]/#&/' /etc/fstab"  # lines of swap alone; as it was it stays as fstab.bak`,
			"ssh {node} systemctl list-unit-files --type swap  # then 'sudo systemctl mask NAME.swap'; a zram generator is turned off by removing its configuration",
		},
		Radius: "this node's next boot; nothing that runs is touched",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		swap := f.Bad(host.NodeSwap.ID)
		if len(swap) == 0 || len(diagnose.ListOf(swap[0], host.FactSwaps)) > 0 ||
			len(diagnose.ListOf(swap[0], host.FactReturns)) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("swap is off now, %s turns it on at the next reboot, and then the kubelet will not start; no fault of tonight", strings.Join(diagnose.ListOf(swap[0], host.FactReturns), ", ")),
			For:  diagnose.Suggests(swap),
		}}
	},
}
