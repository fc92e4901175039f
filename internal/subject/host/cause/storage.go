package cause

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// inNetworkStorage is where a process waits in the kernel for a server of NFS (net/sunrpc, fs/nfs) or SMB.
var inNetworkStorage = regexp.MustCompile(` in (?:__?)?(?:rpc_wait|nfs\d?_|nfs_wait|rpc_|wait_for_response|cifs_|smb2_)`)

// networkStorageDead is kubernetes/kubernetes#90593.
var networkStorageDead = &diagnose.Rule{
	ID: "network-storage-dead", Layer: diagnose.LayerMachine,
	Title: "an NFS server is gone, and processes that touch its mounts hang",
	Doc: `A process that touches an NFS or SMB mount whose server does not answer waits in the kernel until it does, and cannot be killed (state D); hard mounts, the default, wait for ever. The kubelet touches volumes of its pods (to measure, unmount and remove them): one such mount makes its sync loop late ("PLEG is not healthy"), lets pods stay in Terminating, and at its start keeps it from opening its port. The load rises with each process that waits, and the CPUs are idle.
Told from a kubelet or runtime that is frozen by the mount's server, which the probe asks for a connection without touching the mount, and by where in the kernel they wait. An unused mount of a dead server does no harm yet.`,
	Fix: probe.Fix{
		Says: "Bring the server back: what waits then goes on by itself.",
		Manifest: []string{
			"ssh {node} \"grep -E ' (nfs4?|cifs) ' /proc/mounts\"",
			"ssh {node} \"ps -eLo pid,stat,wchan:32,comm | awk '\\$2 ~ /^D/'\"",
			"kubectl get pv -o wide",
		},
		OnlyIf: []probe.Conditional{
			{If: "the server is gone for good: for each of its mounts (PATH of the first command), then the kubelet",
				Manifest: []string{"ssh {node} sudo umount -f -l PATH", "ssh {node} sudo systemctl restart {kubelet}"}},
		},
		Radius: "looking touches nothing that hangs; unmounting by force loses what was not written yet",
	},
	RuledOut: []string{runtime.ContainerdHealth.ID, runtime.CRIHealth.ID},
	Explains: []string{"kubelet-frozen", "kubelet-dead", "runtime-stuck", "node-overloaded", "volume-not-mounted"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		gone := diagnose.Keep(f.Bad(host.NodeDisk.ID), diagnose.Because(host.StorageSilent))
		if len(gone) == 0 {
			return nil
		}
		waits := f.Where(func(r diagnose.Finding) bool {
			return r.Check == host.NodeLoad.ID &&
				slices.ContainsFunc(diagnose.ListOf(r, host.FactStuckIn), inNetworkStorage.MatchString)
		})
		c := diagnose.Case{
			Says: fmt.Sprintf("a file server of {node} is gone: %s: %s", gone[0].Target, gone[0].Saw),
			For: slices.Concat(diagnose.Hints(gone), diagnose.Suggests(waits), diagnose.Hints(evidence.KubeletHere(f).Ill),
				diagnose.Hints(evidence.WaitingPods(f, facts.StartsVolume))),
			Covers: []diagnose.Cover{{Check: host.NodeDisk.ID, About: gone[0].Target}, {Check: facts.CheckPodsEnd}},
		}
		if len(waits) > 0 {
			c.Says += "; processes hang in it: " + waits[0].Saw
		}
		return []diagnose.Case{c}
	},
}
