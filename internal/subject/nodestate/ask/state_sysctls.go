package ask

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// sysctlFolders are the folders of which every setting is compared: a fault may be in a setting that no rule has. The
// kernel has about 250 in them.
var sysctlFolders = []string{"net/ipv4", "net/ipv4/route", "net/ipv6", "net/ipv6/icmp", "net/core", "net/netfilter"}

// mostSysctls bounds how many settings of a folder are read.
const mostSysctls = 200

// unlikeSysctl are settings that are secret, or counters and lists that differ from node to node.
var unlikeSysctl = regexp.MustCompile(`_key$|secret|_count$|available_|rps_sock_flow_entries|flow_limit_cpu_bitmap|netdev_rss_key|nf_log`)

// folderSysctls reads the settings of the folders; what cannot be read is left out.
func folderSysctls(h *probe.Host, into items, own neutral) {
	if h.Far != nil {
		return
	}
	for _, folder := range sysctlFolders {
		entries, err := os.ReadDir(filepath.Join(h.Proc, "sys", folder))
		if err != nil {
			continue // a kernel without that part
		}
		for _, e := range entries[:min(len(entries), mostSysctls)] {
			name := folder + "/" + e.Name()
			if !e.Type().IsRegular() || unlikeSysctl.MatchString(name) {
				continue
			}
			if text, err := kernel.ReadProc(h, "sys/"+name); err == nil {
				into[name] = own.value(name, strings.Join(strings.Fields(text), " "))
			}
		}
	}
}
