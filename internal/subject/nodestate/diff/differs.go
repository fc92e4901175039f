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

// MostTelling is the maximum number of differences to show as the reason. More differences explain nothing.
const MostTelling = 3

// WorksThere returns the checks that are bad on this node. On a baseline node they are good, or bad only about this
// node.
func WorksThere(f diagnose.Findings) []string {
	var out []string
	for _, r := range f.Where(func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) }) {
		if slices.Contains(out, r.Check) || BadThere(f, r.Check) {
			continue
		}
		if r.Facts[probe.FactLives] == true { // only ping is blocked
			continue
		}
		if r.Check == logs.DaemonLog.ID && r.Status == probe.Warn { // a service that still runs, or was restarted
			continue
		}
		if slices.ContainsFunc(f.Elsewhere(r.Check), func(o diagnose.Finding) bool { return diagnose.IsAnswered(o.Status) }) {
			out = append(out, r.Check)
		}
	}
	return out
}

// BadThere reports whether a check is bad on every baseline node that answered it, and not only about this node.
func BadThere(f diagnose.Findings, id string) bool {
	answered, bad := 0, 0
	for _, node := range f.Others() {
		of := f.At(node).Of(id)
		if !slices.ContainsFunc(of, func(r diagnose.Finding) bool { return diagnose.IsAnswered(r.Status) }) {
			continue
		}
		answered++
		if slices.ContainsFunc(of, func(r diagnose.Finding) bool {
			return diagnose.IsBad(r.Status) && !diagnose.Concerns(r, f.Node) && !isAboutThisNode(f, r)
		}) {
			bad++
		}
	}
	return answered > 0 && bad == answered
}

// isAboutThisNode reports whether a baseline node's bad result leads back to this node: it is about a Service that is
// also bad here. One of the Service's endpoints may be on this node.
func isAboutThisNode(f diagnose.Findings, r diagnose.Finding) bool {
	shared := r.Check == service.ServiceClusterIP.ID || r.Check == service.ServiceNodePort.ID
	return shared && slices.ContainsFunc(f.Bad(r.Check), func(own diagnose.Finding) bool { return own.Target == r.Target })
}

// NetworkDiffers describes, as the end of a sentence, how the CNI configuration differs from that of a baseline node.
// It returns "" if there are no differences or too many.
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
