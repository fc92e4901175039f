package facts

import (
	"cmp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Facts of pods-end, in addition to those of pods-start.
const (
	EndsNot  probe.Fact = "ends_not"  // what prevents pods from terminating: one of the EndsNot words
	EndLacks probe.Fact = "end_lacks" // what the CNI plugin lacks to remove a pod's network: one of the EndLacks words
)

// Words of the fact EndsNot.
const (
	EndsNotCNI        = "cni"     // the CNI plugin does not remove the pod's network
	EndsNotRuntime    = "runtime" // the runtime does not stop a container or the sandbox
	EndsNotClean      = "clean"   // its processes are gone, but the kubelet still cleans up its volumes or cgroup
	EndsNotUnreported = "unsaid"  // its containers still run, and the kubelet does not report why
)

// Values of the fact EndLacks.
const (
	EndLacksNodename   = "nodename"      // the file that contains the node's name, which calico-node writes
	endLacksKubeconfig = "kubeconfig"    // a valid kubeconfig or token
	endLacksDatastore  = "datastore"     // Calico's datastore
	endLacksPlugin     = "plugin"        // the plugin's program
	endLacksConfig     = "configuration" // a network configuration
)

// FailedKill holds a parsed kubelet event about a pod that does not terminate.
type FailedKill struct {
	EndsNot string // EndsNotCNI or EndsNotRuntime
	Lacks   string // one of the EndLacks words, "" = something else, or unknown
	Plugin  string // the plugin that rejects the removal, "" if the message names none
	Message string
}

// EventKill is the reason in the kubelet's event about a pod that it cannot kill.
const EventKill = "FailedKillPod"

// The patterns match messages from the kubelet (container/sync_result.go), containerd
// (internal/cri/server/sandbox_stop.go), CRI-O, dockershim, the CNI library, and Calico's plugin
// (cni-plugin/pkg/plugin/plugin.go).
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

// KillFailed parses the message of such an event.
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
