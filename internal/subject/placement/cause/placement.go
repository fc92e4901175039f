package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// probeImage is the probe's own image.
var probeImage = &diagnose.Rule{
	ID: "probe-image", Layer: diagnose.LayerPlacement, Title: "this node cannot pull the probe's image",
	Doc: `The node's runtime could not get the probe's image: the registry is out of reach from there or refuses, or the image is not this program's. It tells little about the node's ills, except that on a node that pulls nothing every new pod waits for its image too: then calico-image or the node's network is what to look at.`,
	Fix: probe.Fix{
		Says: "Name an image this node can have, or bring it there.",
		Manifest: []string{
			"calico-probe run --node {node} --image REGISTRY/calico-probe/probe:VERSION  # or CALICO_PROBE_IMAGE; with credentials: --image-pull-secret NAME",
			"# without a registry: 'make image' writes .cache/probe.tar; then on {node}: sudo ctr -n k8s.io images import probe.tar",
		},
		Radius: "the probe only",
	},
	Match: keptOff(facts.ReasonImage, "{node} cannot get the probe's image, so nothing was asked there"),
}

// probePolicy is PodSecurity, a SecurityContextConstraint, a webhook or a mutating policy.
var probePolicy = &diagnose.Rule{
	ID: "probe-policy", Layer: diagnose.LayerPlacement, Title: "an admission policy rejects or changes the probe's pod",
	Doc: `The probe's pod uses the node's network and mounts its root read-only, which PodSecurity "baseline" and "restricted", OpenShift's SCCs and policy engines refuse. A mutating webhook or policy may also change it: take it off the node's network, add a container, rewrite its image. Such a pod would answer for something else than the node, so it is deleted at once, and nothing of it is believed. The node is not ill for either. The probe goes where privileged pods are allowed, as beside calico-node.`,
	Fix: probe.Fix{
		Says: "Use a namespace that admits privileged pods, or let one admit them.",
		Manifest: []string{
			"calico-probe run --node {node} -n NAMESPACE  # one that admits privileged pods",
			"kubectl get namespace {tried} --show-labels  # what pod-security.kubernetes.io/enforce is now",
		},
		OnlyIf: []probe.Conditional{
			{If: "there is no such namespace, and it was PodSecurity that refused",
				Manifest: []string{"kubectl label --overwrite namespace {tried} pod-security.kubernetes.io/enforce=privileged"}},
			{If: "a policy rewrites the image to one of your own registry",
				Manifest: []string{"calico-probe run --node {node} --image REGISTRY/calico-probe/probe:VERSION  # as the policy makes it"}},
			{If: "there is no such namespace, and this is OpenShift",
				Manifest: []string{"oc adm policy add-scc-to-user privileged -z default -n {tried}"}},
		},
		Radius: "the label admits privileged pods of anybody who may create pods in that namespace: put it back to what it was",
	},
	Match: keptOff(facts.ReasonAdmission,
		"the cluster's policy refuses or changes the probe's pod, so nothing was asked on {node}"),
}

// probeQuota is a namespace that is full.
var probeQuota = &diagnose.Rule{
	ID: "probe-quota", Layer: diagnose.LayerPlacement, Title: "a quota or limit range of the namespace rejects the probe's pod",
	Doc: `A ResourceQuota or LimitRange of the namespace leaves no room for one more pod, or demands what the probe's pod does not say: it requests zero CPU and memory, so that no other pod has to make room for it, and limits only its memory. The node is not ill for that.`,
	Fix: probe.Fix{
		Says:     "Use another namespace, or raise the quota.",
		Manifest: []string{"calico-probe run --node {node} -n NAMESPACE", "kubectl describe quota,limitrange -n {tried}"},
		Radius:   "reading changes nothing; a raised quota lets others of that namespace use it too",
	},
	Match: keptOff(facts.ReasonQuota,
		"a quota or limit range of the namespace refuses the probe's pod, so nothing was asked on {node}"),
}

// probeRights is the user's own role.
var probeRights = &diagnose.Rule{
	ID: "probe-rights", Layer: diagnose.LayerPlacement, Title: "you lack the permission to start a probe on the node",
	Doc: `The user who ran this may read the API and not create the probe's pod or ephemeral container. What the API alone knows is in the report; the rest takes what 'calico-probe manifests' grants for a way, or somebody who has that.`,
	Fix: probe.Fix{
		Says: "Request these permissions, or have a person who has them run this.",
		Manifest: []string{
			"calico-probe preflight --node {node}  # names what is missing, and the flag for this user",
			"calico-probe run --via local  # on the node itself, without any right in the API",
		},
		OnlyIf: []probe.Conditional{
			{If: "you may grant it to the user who runs it again, without -n",
				Manifest: []string{"calico-probe manifests --ways pod{whom} | kubectl apply -f -"}},
		},
		Radius: "a user who may create pods in a namespace that admits the probe gets root on nodes: grant it temporarily",
	},
	Match: keptOff(facts.ReasonRBAC, "the API gives you no right to put a probe on {node}, so nothing was asked there"),
}

// probeNamespace is a namespace that is not there.
var probeNamespace = &diagnose.Rule{
	ID: "probe-namespace", Layer: diagnose.LayerPlacement, Title: "the probe's namespace is missing or terminating",
	Doc: `The namespace given with -n does not exist, or is being deleted and takes nothing new. The node is not ill for that.`,
	Fix: probe.Fix{
		Says: "Name another namespace, or have one made.",
		Manifest: []string{"calico-probe run --node {node} -n {namespace}",
			"calico-probe manifests  # makes one that admits probes"},
		Radius: "the probe only",
	},
	Match: keptOff(facts.ReasonNamespace,
		"the namespace for the probe is missing or ending, so nothing was asked on {node}"),
}

// probeRejected is a kubelet that takes no more pods.
var probeRejected = &diagnose.Rule{
	ID: "probe-rejected", Layer: diagnose.LayerPlacement, Title: "the kubelet rejects the probe's pod",
	Doc: `The pod is bound to the node without the scheduler, and the kubelet judges it itself: it has no room (OutOfpods, OutOfcpu), is under pressure (Evicted, "The node had condition: DiskPressure"), or its admission refuses. It is alive and says why; every new pod of the node meets the same.`,
	Fix: probe.Fix{
		Says: "Free what the kubelet names (pods, CPU, memory, disk) on {node}. Until then use an access method that needs no new pod.",
		Manifest: []string{"calico-probe run --node {node} --via ephemeral",
			"kubectl describe node {node} | grep -A12 -E 'Conditions|Allocated'"},
		Radius: "the probe only",
	},
	Match: keptOff(facts.ReasonRejected, "the kubelet of {node} rejects the probe's pod, so nothing was asked there"),
}

// keptOff matches where no way led onto the node and this is why. While the API
// itself sees something wrong with the node, that is likelier what people look for.
func keptOff(why facts.Reason, says string) func(diagnose.Findings) []diagnose.Case {
	return func(f diagnose.Findings) []diagnose.Case {
		var refused []diagnose.Finding
		for _, r := range evidence.NotPlaced(f, why) {
			if r.Status == probe.Unknown { // else another way did lead there
				refused = append(refused, r)
			}
		}
		if len(refused) == 0 {
			return nil
		}
		weight := diagnose.Proof
		if slices.ContainsFunc(f.All, func(r diagnose.Finding) bool {
			return r.Node == f.Node && (r.Status == probe.Fail || r.Status == probe.Warn)
		}) {
			weight = diagnose.Hint // something is wrong with the node itself
		}
		return []diagnose.Case{{
			Says: says + ": " + refused[0].Saw, For: diagnose.Clues(weight, refused),
			Args: map[string]diagnose.Arg{"tried": diagnose.NamespaceArg(refused[0].Facts.Str(probe.FactNamespace)),
				"whom": granteeArg(refused[0].Facts.Str(facts.LacksUser))},
		}}
	}
}

// granteeArg is the flag that grants rights to a user of the API.
func granteeArg(user string) diagnose.Arg {
	return diagnose.CheckedArg(probe.UserFlag(user), user != "" && diagnose.IsWord(user), " --user=YOU")
}
