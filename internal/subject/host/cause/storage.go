package cause

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// inNetworkStorage is where a process waits in the kernel for a server of NFS (net/sunrpc, fs/nfs) or SMB.
var inNetworkStorage = regexp.MustCompile(` in (?:__?)?(?:rpc_wait|nfs\d?_|nfs_wait|rpc_|wait_for_response|cifs_|smb2_)`)

// networkStorageDead is kubernetes/kubernetes#90593.
func networkStorageDead(f diagnose.Findings) []diagnose.Case {
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
}
