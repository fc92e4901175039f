package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hanging returns one finding whose Saw states how long an init container has been hanging and what its process does
// now. Several causes begin their sentence with this finding. It is not evidence.
func hanging(f diagnose.Findings, name ...string) []diagnose.Finding {
	api := diagnose.Keep(evidence.InitByAPI(f),
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.Container) == name[0] })
	process := f.With(start.InitStall.ID, probe.FactProgram, name[0])
	all := slices.Concat(api, process)
	if len(all) == 0 {
		return nil
	}
	age := 0.0
	for _, r := range all {
		n, _ := r.Facts.Num(facts.Age)
		age = max(age, n)
	}
	where := "init container " + name[0]
	if len(api) > 0 {
		where = fmt.Sprintf("%s, init container %s,", api[0].Facts.Str(facts.APIReason), name[0])
	}
	text := fmt.Sprintf("calico-node on {node} hangs in %s for %s", where, diagnose.Lasting(age))
	if len(process) > 0 {
		pid, _ := process[0].Facts.Num(probe.FactPID)
		text += fmt.Sprintf(" (process %.0f, state %s", pid, process[0].Facts.Str(start.FactProcess))
		if waits := process[0].Facts.Str(start.FactWaits); waits != "" {
			text += ", waits in " + waits
		}
		if leads := diagnose.ListOf(process[0], start.FactLeads); len(leads) > 0 {
			text += ", " + leads[0]
		}
		text += ")"
	}
	return []diagnose.Finding{evidence.StateSays(all[0], text)}
}

// calicoImage matches a calico-node pod that waits for its image. If other pods wait for the same reason,
// registry-refuses explains all of them.
func calicoImage(f diagnose.Findings) []diagnose.Case {
	wanting := f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckCalicoPod && r.Status == probe.Fail && probe.ImageWanting(r.Facts.Str(facts.APIReason))
	})
	if len(wanting) == 0 ||
		slices.ContainsFunc(evidence.WaitingPods(f, facts.StartsImage),
			func(r diagnose.Finding) bool { return evidence.SameRefusal(r, wanting[0]) }) {
		return nil // see registry-refuses
	}
	image, why := wanting[0].Facts.Str(facts.Image), ""
	if refusal := evidence.RefusedWords[wanting[0].Facts.Str(facts.Refusal)]; refusal != "" {
		why = fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("calico-node does not start on {node} because its image cannot be pulled: %s%s", why, wanting[0].Saw),
		Args: map[string]diagnose.Arg{"image": diagnose.ImageArg(image),
			"registry": evidence.RegistryArg(facts.RegistryOf(image))},
		For: diagnose.Proves(wanting), Against: diagnose.Suggests(f.Failed(facts.CheckNodeLease)),
		Covers: evidence.NotStarted,
	}
	refusal := wanting[0].Facts.Str(facts.Refusal)
	c.FixName = evidence.PullFix(refusal)
	if refusal == facts.RefusedAbsent {
		c.FixName = "no-such-image"
	}
	return []diagnose.Case{c}
}
