package examine

import (
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
)

// Suite is every check there is, in the order it is asked: the API first, then whether a
// probe can be put on the node, then the node.
func Suite() []*probe.Check {
	all := append(cluster.Checks(nil), clientChecks()...)
	return append(all, suite.Node()...)
}

// CheckIDs are the IDs of checks.
func CheckIDs(suite []*probe.Check) []string {
	ids := make([]string, 0, len(suite))
	for _, c := range suite {
		ids = append(ids, c.ID)
	}
	return ids
}

// Select is the list of checks that --checks, --skip and --profile stand for.
func Select(want, skip []string, profile string) ([]*probe.Check, error) {
	picked, err := probe.Select(Suite(), want, skip)
	if len(want) == 0 {
		picked = probe.Within(picked, probe.Profile(profile))
	}
	return picked, err
}

// clientChecks are the two questions that the client itself answers.
func clientChecks() []*probe.Check {
	return []*probe.Check{
		{
			ID: probe.CheckPlaced, Asks: "could a probe be put on the node?", From: probe.FromClient,
			Doc: `That no probe can be put on a node is a finding of its own: an image that cannot be pulled, a policy that refuses the pod, a container runtime or a kubelet that does not answer.
ok: the probe is running, and how long that took; the fact image_id is what the node made of the name of its image. info: this access method failed and another one worked. warn: the same, and it failed because the node's kubelet or container runtime started no pod, which it does not do for others either. unknown: none worked, so nothing is known about the node from the inside; the sentence says what stood in the way.`,
		},
		{
			ID: probe.CheckAnswered, Asks: "did the probe's answer arrive whole?", From: probe.FromClient,
			Doc: `A probe ends its answer with a record of its own. Without it the report is incomplete and nothing is called healthy, however good the results that did arrive.
unknown: the stream broke and could not be read again from the container's log. Or the answer came to its end and is not to be trusted as a whole: events in it were not asked for or are not a node's to say (not-asked), a check has no answer (no-answer), it was longer than any node's is (too-much), or the probe speaks a later format (newer). Or calico-probe itself crashed (crashed): at one of its rules, which is named, or at this node; what that would have found is unknown. There is no result when all went well.`,
		},
	}
}
