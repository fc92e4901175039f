package cause

import (
	"embed"
	"maps"
	"sync"

	"github.com/calico-probe/calico-probe/internal/causefile"
	bgpcause "github.com/calico-probe/calico-probe/internal/subject/bgp/cause"
	cnicause "github.com/calico-probe/calico-probe/internal/subject/cni/cause"
	datastorecause "github.com/calico-probe/calico-probe/internal/subject/datastore/cause"
	dnscause "github.com/calico-probe/calico-probe/internal/subject/dns/cause"
	felixcause "github.com/calico-probe/calico-probe/internal/subject/felix/cause"
	firewallcause "github.com/calico-probe/calico-probe/internal/subject/firewall/cause"
	hostcause "github.com/calico-probe/calico-probe/internal/subject/host/cause"
	kubeletcause "github.com/calico-probe/calico-probe/internal/subject/kubelet/cause"
	linkcause "github.com/calico-probe/calico-probe/internal/subject/link/cause"
	nodestatecause "github.com/calico-probe/calico-probe/internal/subject/nodestate/cause"
	overlaycause "github.com/calico-probe/calico-probe/internal/subject/overlay/cause"
	podcause "github.com/calico-probe/calico-probe/internal/subject/pod/cause"
	routecause "github.com/calico-probe/calico-probe/internal/subject/route/cause"
	runtimecause "github.com/calico-probe/calico-probe/internal/subject/runtime/cause"
	servicecause "github.com/calico-probe/calico-probe/internal/subject/service/cause"
	startcause "github.com/calico-probe/calico-probe/internal/subject/start/cause"
)

//go:embed checks
var files embed.FS

// Words returns the texts of a check: its question, and the meaning of each answer.
func Words(check string) causefile.CheckWords { return words()[check] }

// words has the texts of all checks: those of every subject, of the log checks, and of the client's own checks.
var words = sync.OnceValue(func() map[string]causefile.CheckWords {
	all := causefile.MustChecks(files)
	for _, of := range []map[string]causefile.CheckWords{
		bgpcause.Checks(),
		cnicause.Checks(),
		datastorecause.Checks(),
		dnscause.Checks(),
		felixcause.Checks(),
		firewallcause.Checks(),
		hostcause.Checks(),
		kubeletcause.Checks(),
		linkcause.Checks(),
		nodestatecause.Checks(),
		overlaycause.Checks(),
		podcause.Checks(),
		routecause.Checks(),
		runtimecause.Checks(),
		servicecause.Checks(),
		startcause.Checks(),
	} {
		maps.Copy(all, of)
	}
	return all
})
