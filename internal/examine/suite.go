package examine

import (
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/probe"
)

// Suite returns all checks in the order in which they run: first those of the API, then those of the client, then those
// of the node.
func Suite() []*probe.Check {
	all := append(suiteapi.Checks(nil), clientChecks()...)
	return append(all, suite.Node()...)
}

// CheckIDs returns the IDs of checks.
func CheckIDs(suite []*probe.Check) []string {
	ids := make([]string, 0, len(suite))
	for _, c := range suite {
		ids = append(ids, c.ID)
	}
	return ids
}

// Select returns the checks that --checks, --skip and --profile select.
func Select(want, skip []string, profile string) ([]*probe.Check, error) {
	picked, err := probe.Select(Suite(), want, skip)
	if len(want) == 0 {
		picked = probe.Within(picked, probe.Profile(profile))
	}
	return picked, err
}

// clientChecks are the two checks that the client itself answers.
func clientChecks() []*probe.Check {
	return []*probe.Check{
		{
			ID: probe.CheckPlaced, From: probe.FromClient,
		},
		{
			ID: probe.CheckAnswered, From: probe.FromClient,
		},
	}
}
