package cause

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// unscheduledFix is for a calico-node pod that is made for the node and fits it not.
var unscheduledFix = probe.Fix{
	Says: "Make room for it, or have it ask for less: the scheduler says what does not fit.",
	Manifest: []string{
		"kubectl -n {namespace} describe pod {waiting} | tail -5  # the scheduler's words, in full",
		"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.containers[*].resources}{.spec.template.spec.priorityClassName}'",
		"kubectl describe node {node} | grep -A12 'Allocated resources'",
	},
	OnlyIf: []probe.Conditional{
		{If: "nobody has looked at it: the scheduler itself",
			Manifest: []string{"kubectl -n kube-system get pods -l component=kube-scheduler -o wide"}},
		{If: "its requests were changed lately",
			Manifest: []string{"kubectl -n {namespace} rollout undo daemonset/{daemonset}"}},
	},
	Radius: "reading changes nothing; a changed DaemonSet restarts calico-node on every node, one after the other",
}

// unscheduled is the case of a node whose calico-node pod no scheduler binds to it.
func unscheduled(none []diagnose.Finding) diagnose.Case {
	_, pod, _ := strings.Cut(none[0].Facts.Str(facts.Pod), "/")
	return diagnose.Case{
		Says: fmt.Sprintf("Calico does not run on {node}, for its pod %s cannot be scheduled there: %s", pod,
			none[0].Facts.Str(facts.SkippedFor)),
		Args: map[string]diagnose.Arg{"waiting": diagnose.PodArg(pod)}, Fix: &unscheduledFix, For: diagnose.Proves(none),
		Covers: evidence.NotStarted,
	}
}

// What the kubelet's message about a volume surely names.
var (
	volumeOfNode  = regexp.MustCompile(`hostPath type check failed: (\S+) is not `)
	volumeMissing = regexp.MustCompile(`(configmap|secret) "([^"]+)" not found|references non-existent (?:config|secret) key: (\S+)`)
)

// pathFix is for a path of the node that is of another kind than the pod wants.
var pathFix = probe.Fix{
	Says: "Put what the pod wants in its place: a file, a directory or a socket; the kubelet tries again by itself, at the latest after two minutes.",
	Manifest: []string{"ssh {node} ls -ld {path}",
		"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.volumes}'  # what it wants there"},
	OnlyIf: []probe.Conditional{{If: "it is an empty directory in place of a file, as a container runtime makes for a mount of what is not there",
		Manifest: []string{"ssh {node} sudo rmdir {path}"}}},
	Radius: "reading changes nothing; the path: this node",
}

// calicoPodWaits is a calico-node pod of which nothing has run, for what the kubelet says.
func calicoPodWaits(f diagnose.Findings) []diagnose.Case {
	for _, r := range f.Bad(facts.CheckCalicoPod) {
		starts, says := r.Facts.Str(facts.Starts), r.Facts.Str(facts.Message)
		if starts == "" || says == "" {
			continue
		}
		what := map[string]string{facts.StartsVolume: "a volume cannot be mounted",
			facts.StartsSandbox: "the runtime makes no sandbox",
			facts.StartsNetwork: "the runtime has no network"}[starts]
		c := diagnose.Case{Says: fmt.Sprintf("calico-node's pod does not begin on {node}, for %s: %s", what, says),
			For: diagnose.Suggests([]diagnose.Finding{r}), Covers: slices.Concat(evidence.NotStarted, evidence.CalicoDown)}
		if m := volumeOfNode.FindStringSubmatch(says); m != nil {
			c.Fix, c.Args = &pathFix, map[string]diagnose.Arg{"path": diagnose.FileArg(m[1])}
		}
		if volumeOfNode.MatchString(says) || volumeMissing.MatchString(says) {
			c.For = diagnose.Proves([]diagnose.Finding{r})
		} else if r.Status == probe.Warn && len(f.Failed(felix.FelixLive.ID)) == 0 {
			c.For = diagnose.Hints([]diagnose.Finding{r})
		}
		return []diagnose.Case{c}
	}
	return nil
}

// calicoLimit is a calico-node that gets no more processes or files.
func calicoLimit(f diagnose.Findings) []diagnose.Case {
	said := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.Limit) != "" })
	wrote := diagnose.Keep(evidence.LastError(f),
		func(r diagnose.Finding) bool { return r.Facts.Str(logs.FactSignature) == logs.SaysNoRoom })
	switch {
	case len(said) > 0:
		return []diagnose.Case{{
			Says:   fmt.Sprintf("calico-node on {node} reaches a limit of %s: %s", limitWord(said[0]), said[0].Facts.Str(facts.ProbeSays)),
			For:    append(diagnose.Proves(said), diagnose.Hints(wrote)...),
			Covers: slices.Concat(evidence.NotStarted, evidence.CalicoDown),
		}}
	case len(wrote) > 0 && len(f.Bad(facts.CheckCalicoPod)) > 0:
		return []diagnose.Case{{
			Says: "calico-node on {node} reaches a limit of processes or open files: " + wrote[0].Facts.Str(logs.FactLine),
			For:  diagnose.Suggests(wrote), Covers: slices.Concat(evidence.NotStarted, evidence.CalicoDown),
		}}
	}
	return nil
}

func limitWord(r diagnose.Finding) string {
	if what := r.Facts.Str(facts.Limit); what == facts.LimitProcesses {
		return "processes (podPidsLimit of the kubelet, or pids.max of its cgroup)"
	} else if what == facts.LimitFiles {
		return "open files"
	}
	return "memory"
}

// typhaMissing is a Typha that is configured and not there.
func typhaMissing(f diagnose.Findings) []diagnose.Case {
	none := f.Failed(facts.CheckTyphaService)
	ends := typhaEnds(f)
	if len(none) == 0 {
		return endsAlone(ends)
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("calico-node on {node} looks for Typha (Service %s): %s", none[0].Facts.Str(facts.Service), none[0].Saw),
		Covers: append(diagnose.Covers(felix.FelixReady.ID, felix.FelixLive.ID, datastore.TyphaReach.ID),
			evidence.CalicoDown...),
	}
	// With Felix in sync it has its data from somewhere.
	ill := append(f.Bad(felix.FelixReady.ID), f.Bad(facts.CheckCalicoPod)...)
	c.For = append(diagnose.Suggests(none), diagnose.Hints(ill)...)
	if len(ill) == 0 {
		c.For = diagnose.Hints(none)
		c.Says += "; Felix runs with what it has, until its next start"
	}
	if len(ends) > 0 {
		c.Says += fmt.Sprintf("; %s ended with: %s", ends[0].Target, evidence.QuotedLine(ends[0]))
		c.For = append(c.For, diagnose.Suggests(ends[:1])...)
		c.Covers = append(c.Covers, diagnose.Cover{Check: logs.KubeLog.ID})
	}
	return []diagnose.Case{c}
}

// webhookDead is a webhook that nobody answers for, and that stops what it would be asked about.
func webhookDead(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Bad(facts.CheckWebhooks) {
		keeps := diagnose.ListOf(r, facts.KeepsFrom)
		config := r.Facts.Str(facts.WebhookOf)
		c := diagnose.Case{About: r.Facts.Str(facts.Webhook), For: diagnose.Suggests([]diagnose.Finding{r}),
			Says: fmt.Sprintf("%s (%s)", r.Saw, config), Args: webhookArgs(config)}
		for _, what := range keeps {
			switch what {
			case facts.KeepsLeases:
				c.For = append(c.For, diagnose.Hints(f.Failed(facts.CheckNodeLease))...)
				c.Covers = append(c.Covers, diagnose.Covers(facts.CheckNodeLease, facts.CheckNodeReady,
					facts.CheckNodeTaints)...)
			case facts.KeepsStatus, facts.KeepsNodes:
				c.Covers = append(c.Covers, diagnose.Covers(facts.CheckNodeReady)...)
			case facts.KeepsPods:
				c.For = append(c.For, diagnose.Hints(f.With(facts.CheckCalicoPod, probe.FactReason,
					facts.ReasonNoPod))...)
			}
		}
		if r.Status == probe.Warn { // what it stops has not stopped yet
			c.For = diagnose.Hints([]diagnose.Finding{r})
		}
		c.For = append(c.For, diagnose.Hints(diagnose.Keep(f.Of(probe.CheckPlaced), func(p diagnose.Finding) bool {
			return facts.Reason(p.Facts.Str(probe.FactReason)) == facts.ReasonAdmission &&
				strings.Contains(p.Saw, `"`+c.About+`"`)
		}))...)
		refused := diagnose.Keep(evidence.WaitingPods(f, facts.StartsCNI), func(p diagnose.Finding) bool {
			return p.Facts.Str(facts.Obstacle) == facts.ObstacleWebhook && p.Facts.Str(facts.ObstacleAt) == c.About
		})
		if len(refused) > 0 { // the CNI plugin's writes of addresses
			c.For = append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(refused)...)
			c.Covers = append(c.Covers, diagnose.Covers(facts.CheckPodsStart)...)
		}
		out = append(out, c)
	}
	return out
}

// webhookFix is the fix of a webhook that nothing answers for.
var webhookFix = probe.Fix{
	Says: "Restore the webhook's Service, or exclude these objects from the webhook. If neither is quick, delete the webhook until its Service is back.",
	Manifest: []string{
		"kubectl get {webhook} -o yaml  # its rules, its Service, its selectors",
	},
	OnlyIf: []probe.Conditional{
		{If: "its Service cannot be restored soon, and the cluster may run without what the webhook enforces",
			Manifest: []string{"kubectl get {webhook} -o yaml  # keep this, to put it back",
				"kubectl delete {webhook}"}},
	},
	Radius: "reading changes nothing; without the webhook the API server accepts everything that it would reject",
}

// kubeletRefused is a kubelet that reads from the API server, and whose lease is not renewed.
func kubeletRefused(f diagnose.Findings) []diagnose.Case {
	lease, started := f.Failed(facts.CheckNodeLease), evidence.StartsPods(f)
	if len(lease) == 0 || len(started) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: "the kubelet on {node} receives from the API server, since it started a pod of this run, and its lease is not renewed" + evidence.Since(f) +
			": its writes are rejected or not stored",
		For: append(diagnose.Suggests(started), diagnose.Shows(lease)...), Covers: evidence.KubeletGone,
		Against: diagnose.Suggests(evidence.ToServers(f.Failed(datastore.DatastoreLatency.ID))),
	}
	if says := evidence.ServiceWrites(f, logs.ServiceKubelet, logs.SaysUnauthorized,
		logs.SaysCertificate, logs.SaysAuthority); len(says) > 0 {
		c.Says += "; " + says[0].Saw
		c.For = append(c.For, diagnose.Hints(says)...)
	}
	return []diagnose.Case{byConditional(f, c)}
}

// rejectedFix is the fix of a kubelet whose writes are rejected.
var rejectedFix = probe.Fix{
	Says: "Ask the API server for its reason: the kubelet logs it at each try.",
	Manifest: []string{
		"ssh {node} \"sudo journalctl -u {kubelet} -n 200 --no-pager | grep -iE 'lease|node status|denied|forbidden|webhook' | tail -5\"",
		"kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicybindings",
		"kubectl auth can-i update leases.coordination.k8s.io/{node} -n kube-node-lease --as=system:node:{node} --as-group=system:nodes",
		"kubectl get --raw '/readyz?verbose'",
	},
	Radius: evidence.OnlyReads,
}

// byConditional adds to such a case the dead webhook whose conditions of its own may select what kubelets write.
func byConditional(f diagnose.Findings, c diagnose.Case) diagnose.Case {
	hooks := diagnose.Keep(f.Of(facts.CheckWebhooks), func(r diagnose.Finding) bool {
		keeps := diagnose.ListOf(r, facts.KeepsFrom)
		return r.Status == probe.Info &&
			(slices.Contains(keeps, facts.KeepsLeases) || slices.Contains(keeps, facts.KeepsStatus))
	})
	if len(hooks) == 0 {
		return c
	}
	config := hooks[0].Facts.Str(facts.WebhookOf)
	c.Says += fmt.Sprintf("; %s (%s)", hooks[0].Saw, config)
	c.For = append(c.For, diagnose.Hints(hooks[:1])...)
	fix := rejectedFix
	fix.Manifest = append(slices.Clone(fix.Manifest), webhookFix.Manifest...)
	for _, only := range webhookFix.OnlyIf {
		only.If = "the kubelet's log names this webhook, and " + only.If
		fix.OnlyIf = append(fix.OnlyIf, only)
	}
	fix.Radius = webhookFix.Radius
	c.Fix, c.Args = &fix, webhookArgs(config)
	return c
}

// webhookArgs is the configuration of a webhook for the commands of its fix: KIND/NAME.
func webhookArgs(config string) map[string]diagnose.Arg {
	kind, name, _ := strings.Cut(config, "/")
	return map[string]diagnose.Arg{"webhook": diagnose.CheckedArg(config, diagnose.IsName(kind) && diagnose.IsName(name),
		"KIND/NAME")}
}

// typhaEnds are the last lines of a Typha that does not get up, on this node or on a baseline node.
func typhaEnds(f diagnose.Findings) []diagnose.Finding {
	out := evidence.KubeEnds(f, "calico-typha")
	for _, node := range f.Others() {
		out = append(out, evidence.KubeEnds(f.At(node), "calico-typha")...)
	}
	return out
}

// endsAlone is the case of a Typha that ends beside others that answer.
func endsAlone(ends []diagnose.Finding) []diagnose.Case {
	if len(ends) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("%s does not stay up, and others serve in its place: it ended with %s", ends[0].Target, evidence.QuotedLine(ends[0])),
		For:  diagnose.Suggests(ends[:1]), Covers: diagnose.Covers(logs.KubeLog.ID),
	}}
}
