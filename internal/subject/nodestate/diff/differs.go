package diff

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

const MostTelling = 3 // deeds that may all be the reason

// WorksThere are the checks that are bad here and good on a baseline node, or bad there only about this node.
func WorksThere(f diagnose.Findings) []string {
	var out []string
	for _, r := range f.Where(func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) }) {
		if slices.Contains(out, r.Check) || BadThere(f, r.Check) {
			continue
		}
		if r.Facts[probe.FactLives] == true { // ping is blocked, and nothing else
			continue
		}
		if r.Check == logs.DaemonLog.ID && r.Status == probe.Warn { // a service that goes on, or that was started again
			continue
		}
		if slices.ContainsFunc(f.Elsewhere(r.Check), func(o diagnose.Finding) bool { return diagnose.IsAnswered(o.Status) }) {
			out = append(out, r.Check)
		}
	}
	return out
}

// BadThere tells whether a check is bad on every baseline node that answered it, and not only about this node.
func BadThere(f diagnose.Findings, id string) bool {
	asked, ill := 0, 0
	for _, node := range f.Others() {
		of := f.At(node).Of(id)
		if !slices.ContainsFunc(of, func(r diagnose.Finding) bool { return diagnose.IsAnswered(r.Status) }) {
			continue
		}
		asked++
		if slices.ContainsFunc(of, func(r diagnose.Finding) bool {
			return diagnose.IsBad(r.Status) && !diagnose.Concerns(r, f.Node) && !aboutOwn(f, r)
		}) {
			ill++
		}
	}
	return asked > 0 && ill == asked
}

// aboutOwn tells whether what a baseline node asked about is bad when this node asks about it too and leads back
// here: a Service, one of whose endpoints is on this node.
func aboutOwn(f diagnose.Findings, r diagnose.Finding) bool {
	shared := r.Check == service.ServiceClusterIP.ID || r.Check == service.ServiceNodePort.ID
	return shared && slices.ContainsFunc(f.Bad(r.Check), func(own diagnose.Finding) bool { return own.Target == r.Target })
}

// NetworkDiffers says, as the end of a sentence, what the files of network configurations have here and not on a
// baseline node, "" where that is nothing, or much.
func NetworkDiffers(f diagnose.Findings) string {
	var texts []string
	for _, d := range Differences(f) {
		if d.Area == nodestate.AreaPaths && strings.HasPrefix(d.Name, networkFolder+"/") {
			texts = append(texts, d.Text(f.Node))
		}
	}
	if len(texts) == 0 || len(texts) > MostTelling {
		return ""
	}
	return "; the CNI configuration differs from a working node: " + strings.Join(texts, "; ")
}
