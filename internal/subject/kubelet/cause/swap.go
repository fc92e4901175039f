package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
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
func swapOn(f diagnose.Findings) []diagnose.Case {
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
}

// swapReturns is the same the day before.
func swapReturns(f diagnose.Findings) []diagnose.Case {
	swap := f.Bad(host.NodeSwap.ID)
	if len(swap) == 0 || len(diagnose.ListOf(swap[0], host.FactSwaps)) > 0 ||
		len(diagnose.ListOf(swap[0], host.FactReturns)) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("swap is off now, %s turns it on at the next reboot, and then the kubelet will not start; no fault of tonight", strings.Join(diagnose.ListOf(swap[0], host.FactReturns), ", ")),
		For:  diagnose.Suggests(swap),
	}}
}
