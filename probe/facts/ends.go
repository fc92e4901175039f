package facts

import (
	"cmp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Facts of pods-end, besides those of pods-start.
const (
	EndsNot  probe.Fact = "ends_not"  // what keeps pods from ending: one of the EndsNot words
	EndLacks probe.Fact = "end_lacks" // what the CNI plugin lacks to remove a pod's network: one of the EndLacks words
)

// Words of the fact EndsNot.
const (
	EndsNotCNI     = "cni"     // the CNI plugin does not remove the pod's network
	EndsNotRuntime = "runtime" // the runtime does not stop a container or the sandbox
	EndsNotClean   = "clean"   // nothing of it runs any more, and the kubelet is not done with its volumes or cgroup
	EndsNotUnsaid  = "unsaid"  // its containers run on, and the kubelet does not say why
)

// Words of the fact EndLacks.
const (
	EndLacksNodename   = "nodename"      // the file with the node's name, which calico-node writes
	endLacksKubeconfig = "kubeconfig"    // a kubeconfig or token that is good
	endLacksDatastore  = "datastore"     // Calico's datastore
	endLacksPlugin     = "plugin"        // its program
	endLacksConfig     = "configuration" // a network configuration
)

// FailedKill is what an event of the kubelet's about a pod that does not end comes to.
type FailedKill struct {
	EndsNot string // EndsNotCNI or EndsNotRuntime
	Lacks   string // one of the EndLacks words, "" = another, or none
	Plugin  string // that refuses, "" where the message names none
	Message string
}

// EventKill is the reason of the kubelet's event about a pod that it cannot end.
const EventKill = "FailedKillPod"

// The words are the kubelet's (container/sync_result.go), containerd's (internal/cri/server/sandbox_stop.go),
// CRI-O's and dockershim's; those of the CNI library, and of Calico's plugin (cni-plugin/pkg/plugin/plugin.go).
var (
	killWords  = lazy.New(`^(?:\(combined from similar events\): )?error killing pod: `)
	networkDel = lazy.New(`failed to destroy network for|failed to teardown pod|failed \(delete\)|cni config uninitialized`)
	lacksWords = []struct {
		is    string
		words *lazy.Regexp
	}{
		{EndLacksNodename, lazy.New(`stat \S*/nodename: no such file`)},
		{endLacksConfig, lazy.New(`cni config uninitialized|cni plugin not initialized`)},
		{endLacksPlugin, lazy.New(`failed to find plugin|fork/exec \S+: (?:no such file|permission denied|exec format error)`)},
		{endLacksKubeconfig, lazy.New(`building K8s client config|stat \S*kubeconfig|Unauthorized|unauthorized|x509: `)},
		{endLacksDatastore, lazy.New(`not ready to process requests|ClusterInformation|dial tcp|i/o timeout|connection refused`)},
	}
)

// KillFailed reads the message of such an event.
func KillFailed(text string) FailedKill {
	says := strings.TrimSpace(killWords.ReplaceAllString(text, ""))
	k := FailedKill{EndsNot: EndsNotRuntime, Message: strings.ReplaceAll(says, `\"`, `"`)}
	if !networkDel.MatchString(k.Message) {
		return k
	}
	k.EndsNot = EndsNotCNI
	if m := pluginOf.FindStringSubmatch(k.Message); m != nil {
		k.Plugin = cmp.Or(m[1], m[2])
	}
	for _, l := range lacksWords {
		if l.words.MatchString(k.Message) {
			k.Lacks = l.is
			break
		}
	}
	return k
}
