package cause

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// lacking are the bad answers of calico-rights about one of its targets, the account or the kinds,
// where calico-node is not up.
func lacking(f diagnose.Findings, target string) []diagnose.Finding {
	return diagnose.Keep(f.Failed(facts.CheckCalicoRights), diagnose.About(target))
}

// lacks is the case of what calico-node needs and has not, by the API alone.
func lacks(found []diagnose.Finding) []diagnose.Case {
	if len(found) == 0 {
		return nil
	}
	r := found[0]
	c := diagnose.Case{Says: r.Saw, For: diagnose.Proves(found), Covers: diagnose.Covers(facts.CheckCalicoRights)}
	c.Covers = slices.Concat(c.Covers, evidence.CalicoDown, evidence.NotStarted)
	account := r.Facts.Str(facts.Account)
	namespace, name, _ := strings.Cut(account, ":")
	c.Args = map[string]diagnose.Arg{"account": diagnose.CheckedArg(account, diagnose.IsName(namespace) &&
		diagnose.IsName(name), "NAMESPACE:NAME")}
	return []diagnose.Case{c}
}

// also adds what the API says to a case that the log made.
func also(c diagnose.Case, found []diagnose.Finding) diagnose.Case {
	c.For = append(c.For, diagnose.Hints(found)...)
	c.Covers = append(c.Covers, diagnose.Covers(facts.CheckCalicoRights)...)
	return c
}

// nextStartRefused is what a calico-node that runs needs at its next start.
func nextStartRefused(f diagnose.Findings) []diagnose.Case {
	later := diagnose.Keep(f.With(facts.CheckCalicoRights, facts.Later, true),
		func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
	if len(later) == 0 {
		return nil
	}
	return []diagnose.Case{{Says: later[0].Saw, For: diagnose.Proves(later),
		Covers: diagnose.Covers(facts.CheckCalicoRights)}}
}
