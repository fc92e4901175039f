package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// probeImage is the probe's own image.
var probeImage = keptOff(facts.ReasonImage, "{node} cannot get the probe's image, so nothing was asked there")

// probePolicy is PodSecurity, a SecurityContextConstraint, a webhook or a mutating policy.
var probePolicy = keptOff(facts.ReasonAdmission,
	"the cluster's policy refuses or changes the probe's pod, so nothing was asked on {node}")

// probeQuota is a namespace that is full.
var probeQuota = keptOff(facts.ReasonQuota,
	"a quota or limit range of the namespace refuses the probe's pod, so nothing was asked on {node}")

// probeRights is the user's own role.
var probeRights = keptOff(facts.ReasonRBAC, "the API gives you no right to put a probe on {node}, so nothing was asked there")

// probeNamespace is a namespace that is not there.
var probeNamespace = keptOff(facts.ReasonNamespace,
	"the namespace for the probe is missing or ending, so nothing was asked on {node}")

// probeRejected is a kubelet that takes no more pods.
var probeRejected = keptOff(facts.ReasonRejected, "the kubelet of {node} rejects the probe's pod, so nothing was asked there")

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
