package agents

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
)

// The arguments that the tools take.
type (
	nodesArguments struct {
		Nodes    []string `json:"nodes,omitempty" jsonschema:"node names; leave out for all nodes"`
		Selector string   `json:"selector,omitempty" jsonschema:"node labels, in the syntax of kubectl's -l"`
	}
	runArguments struct {
		Node    string   `json:"node" jsonschema:"name of the node"`
		Profile string   `json:"profile,omitempty" jsonschema:"quick, standard (default) or deep"`
		Via     string   `json:"via,omitempty" jsonschema:"access method: auto (default), or api to create nothing"`
		Checks  []string `json:"checks,omitempty" jsonschema:"run only these checks: IDs or families, such as bgp"`
	}
	resultArguments struct {
		ID    string `json:"id,omitempty" jsonschema:"id at the start of an earlier answer; leave out to list all ids"`
		Check string `json:"check,omitempty" jsonschema:"ID of a check: its answers with their evidence"`
	}
	explainArguments struct {
		ID string `json:"id" jsonschema:"ID of a cause or a check"`
	}
	diffArguments struct {
		A string `json:"a" jsonschema:"id of a run, the good one"`
		B string `json:"b" jsonschema:"id of a run, the bad one"`
	}
	runbookArguments struct {
		Name string `json:"name,omitempty" jsonschema:"name of a runbook; leave out to list all runbooks"`
		Node string `json:"node,omitempty" jsonschema:"run the runbook on this node; leave out to read it"`
	}
)

// addTools adds the tools that the world supports.
func (s *Server) addTools() error {
	w, probes := s.world, s.world.Probes
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	if w.Triage != nil {
		add(offer(s, tool[nodesArguments]{name: "triage", title: "Judge nodes through the API", asks: true, do: s.triage,
			check: checkNodesOf,
			text:  "Judges all nodes (or some) through the Kubernetes API, and groups them by cause. Creates nothing. Begin here."}))
	}
	if w.Run != nil {
		text := "Examines one node and names the cause, its evidence and the fix. It never runs the fix. "
		if probes {
			text += "Places a read-only probe pod on the node for some seconds, and on healthy nodes to compare; via=api creates nothing."
		} else {
			text += "Only through the API (via=api): probes are not allowed here."
		}
		add(offer(s, tool[runArguments]{name: "run", title: "Examine one node", text: text, creates: probes, asks: true,
			do: s.run, check: s.checkRun, confirm: s.confirmRun}))
	}
	if w.Mesh != nil && probes {
		add(offer(s, tool[nodesArguments]{name: "mesh", title: "Test the paths between nodes", creates: true, asks: true,
			do: s.mesh, text: "Places a probe pod on every node (or some), tests the paths between them, and reports what failing " +
				"paths have in common.",
			check: checkNodesOf, confirm: confirmMesh, scope: s.scopeMesh}))
	}
	if len(w.Runbooks) > 0 {
		text := "Lists the runbooks, or shows one runbook: what to check, in which order, and what to conclude."
		if probes && w.Follow != nil {
			text += " With a node, it runs the runbook there without actions and commands, and notifies the runbook's webhooks."
		}
		add(offer(s, tool[runbookArguments]{name: "runbook", title: "Written procedures", text: text, creates: probes,
			asks: true, do: s.runbook, check: s.checkRunbook, confirm: confirmRunbook}))
	}
	add(offer(s, tool[resultArguments]{name: "result", title: "Look at an earlier answer", do: s.resultOf,
		text: "Shows an earlier or saved report again, or all answers of one check with their evidence."}))
	add(offer(s, tool[explainArguments]{name: "explain", title: "Explain a cause or a check", do: s.explain,
		text: "Explains a cause, how to distinguish and fix it, or what the answers of a check mean."}))
	add(offer(s, tool[diffArguments]{name: "diff", title: "Compare two runs", do: s.diff,
		text: "Shows what is worse or better in run b than in run a: two nodes, or one node before and after."}))
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) triage(ctx context.Context, in nodesArguments) (answer, error) {
	f, err := s.world.Triage(ctx, in.Nodes, in.Selector)
	if err != nil {
		return answer{}, err
	}
	own := []string{fmt.Sprintf("verdict: %s, by the API only, for %d nodes", verdictWord(f.Verdict), len(f.Nodes))}
	for _, word := range slices.Backward(report.Verdicts()) {
		if n := f.Verdicts[word]; n > 0 {
			own = append(own, fmt.Sprintf("%d nodes: %s", n, word))
		}
	}
	var causes []string
	for _, g := range f.Groups {
		causes = append(causes, s.known(g.Cause, g.Confidence)...)
	}
	own = append(own, listed("causes", causes)...)
	if len(f.Groups) == 0 {
		own = append(own, "The API shows no fault. Some faults are visible only on the node: use the tool run.")
	}
	return answer{own: own, quoted: f.Brief(), keep: &kept{kind: kindFleet, doc: f}, short: defanged(f.Shortened())}, nil
}

func (s *Server) run(ctx context.Context, in runArguments) (answer, error) {
	if !s.world.Probes {
		in.Via = viaAPI
	}
	run, doc, err := s.world.Run(ctx, in.Node, How{Profile: in.Profile, Via: in.Via, Checks: in.Checks})
	if err != nil {
		return answer{}, err
	}
	return answer{own: append([]string{"node: " + in.Node}, s.ofDocument(doc)...), quoted: doc.Brief(),
		keep: &kept{kind: kindRun, doc: doc, run: &run}, short: defanged(doc.Shortened())}, nil
}

// ofDocument summarizes a run in calico-probe's own words.
func (s *Server) ofDocument(d report.Document) []string {
	out := []string{"verdict: " + verdictWord(d.Verdict)}
	var causes, bad []string
	for _, c := range d.Causes {
		causes = append(causes, s.known(c.ID, c.Confidence)...)
	}
	for _, status := range probe.Statuses()[:3] { // fail, unknown, warn
		for _, r := range d.Results {
			if r.Status == status && r.Node == "" {
				for _, one := range s.known(r.Check, status) {
					if !slices.Contains(bad, one) {
						bad = append(bad, one)
					}
				}
			}
		}
	}
	out = append(out, listed("causes, the likeliest first", causes)...)
	return append(out, listed("checks with bad results", bad)...)
}

// known returns a cause or check with its confidence or status, if calico-probe has this ID. It validates the ID,
// because a saved run may contain any text, and Explain also accepts patterns.
func (s *Server) known(id string, how any) []string {
	if !plainID.MatchString(id) || s.world.Explain == nil {
		return nil
	}
	if _, err := s.world.Explain(id); err != nil {
		return nil
	}
	return []string{fmt.Sprintf("%s (%s)", id, how)}
}

func listed(what string, items []string) []string {
	const most = 12
	if len(items) == 0 {
		return nil
	}
	text := strings.Join(items[:min(len(items), most)], ", ")
	if n := len(items) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return []string{what + ": " + text}
}

// verdictWord returns a verdict's word if it is valid.
func verdictWord(v *probe.Verdict) string {
	if v == nil || !slices.Contains(report.Verdicts(), v.Word) {
		return "none"
	}
	return v.Word
}

func (s *Server) mesh(ctx context.Context, in nodesArguments) (answer, error) {
	r, err := s.world.Mesh(ctx, in.Nodes, in.Selector)
	if err != nil {
		return answer{}, err
	}
	var text bytes.Buffer
	if err := r.Write(&text, 0); err != nil {
		return answer{}, err
	}
	own := []string{fmt.Sprintf("%d nodes", len(r.Nodes))}
	for _, p := range r.Planes {
		own = append(own, fmt.Sprintf("%d of %d paths fail, plane %d", p.Failed, p.Tried, len(own)))
	}
	return answer{own: own, quoted: lines(text.String()), keep: &kept{kind: kindMesh, doc: r}}, nil
}

func (s *Server) runbook(ctx context.Context, in runbookArguments) (answer, error) {
	if in.Name == "" {
		var out []string
		for _, it := range s.world.Runbooks {
			out = append(out, it.Name+": "+probe.OneLine(it.Title))
		}
		return answer{own: out}, nil
	}
	if in.Node == "" {
		return answer{own: cutLines(lines(string(s.world.Runbooks[s.usable(in.Name)].Text)))}, nil
	}
	r, err := s.world.Follow(ctx, in.Name, in.Node)
	if err != nil {
		return answer{}, err
	}
	var text bytes.Buffer
	for _, e := range r.Steps {
		if err := runbook.WriteEntry(&text, e); err != nil {
			return answer{}, err
		}
	}
	own := []string{"runbook " + in.Name + " on node " + in.Node}
	if o := r.Outcome; o != nil {
		if slices.Contains(report.Verdicts(), o.Verdict) {
			own = append(own, "verdict: "+o.Verdict)
		}
		if err := runbook.WriteOutcome(&text, *o); err != nil {
			return answer{}, err
		}
	}
	return answer{own: own, quoted: lines(text.String()), keep: &kept{kind: kindRunbook, doc: r}}, nil
}

func (s *Server) explain(_ context.Context, in explainArguments) (answer, error) {
	id := strings.TrimSpace(in.ID)
	if !ownName.MatchString(id) || s.world.Explain == nil {
		return answer{}, refuse("explain takes the ID of a cause or a check from an answer")
	}
	text, err := s.world.Explain(id)
	if err != nil {
		return answer{}, refuse("unknown cause or check %q", id)
	}
	return answer{own: cutLines(lines(text))}, nil
}

func (s *Server) diff(_ context.Context, in diffArguments) (answer, error) {
	var runs [2]report.Run
	for i, id := range []string{in.A, in.B} {
		k, ok := s.runs.get(id)
		if !ok || k.run == nil {
			return answer{}, refuse("unknown run id %q: call result to list all ids", probe.Cut(probe.Line(id), 60))
		}
		runs[i] = *k.run
	}
	d := report.Diff(in.A, runs[0], in.B, runs[1])
	var text bytes.Buffer
	if err := report.WriteDiff(&text, "table", d); err != nil {
		return answer{}, err
	}
	said := "b is not worse than a"
	if d.Worse() {
		said = "b is worse than a"
	}
	return answer{own: []string{said}, quoted: lines(text.String()), keep: &kept{kind: kindDiff, doc: d}}, nil
}

func (s *Server) resultOf(_ context.Context, in resultArguments) (answer, error) {
	if in.ID == "" {
		return s.listResults(), nil
	}
	k, ok := s.runs.get(in.ID)
	if !ok {
		return answer{}, refuse("unknown report id %q: call result without an id to list all ids", probe.Cut(probe.Line(in.ID), 60))
	}
	doc, isRun := k.doc.(report.Document)
	switch f, isFleet := k.doc.(report.Fleet); {
	case isRun && in.Check == "":
		return answer{own: append([]string{"id: " + k.id}, s.ofDocument(doc)...), quoted: doc.Brief()}, nil
	case isRun:
		return evidence(k.id, in.Check, doc.Results)
	case isFleet && in.Check == "":
		return answer{own: []string{"id: " + k.id}, quoted: f.Brief()}, nil
	case isFleet:
		var all []report.Located
		for _, n := range f.Nodes {
			for _, r := range n.Results {
				r.Node = n.Node
				all = append(all, r)
			}
		}
		return evidence(k.id, in.Check, all)
	}
	return answer{}, refuse("a %s is only available as the resource %s", k.kind, uri(k.id))
}

func (s *Server) listResults() answer {
	a := answer{}
	for _, k := range s.runs.list() {
		a.own = append(a.own, fmt.Sprintf("%s: %s, %s", k.id, k.kind, k.at.UTC().Format("15:04:05 UTC")))
		if d, ok := k.doc.(report.Document); ok {
			a.quoted = append(a.quoted, fmt.Sprintf("%s is about node %s", k.id, d.Node))
		}
	}
	if len(a.own) == 0 {
		a.own = []string{"No reports yet: call triage or run."}
	}
	return a
}

// evidence returns the results of one check with all details.
func evidence(id, check string, all []report.Located) (answer, error) {
	a := answer{own: []string{"id: " + id}}
	for _, r := range all {
		if r.Check != check {
			continue
		}
		of := slices.DeleteFunc([]string{string(r.Status), r.Target, r.From, r.Node}, func(s string) bool { return s == "" })
		head := strings.Join(of, " ")
		a.quoted = append(a.quoted, head+": "+r.Saw)
		for _, name := range slices.Sorted(maps.Keys(r.Facts)) {
			a.quoted = append(a.quoted, fmt.Sprintf("  %s = %v", name, r.Facts[name]))
		}
		for _, line := range r.Lines {
			a.quoted = append(a.quoted, "  "+line)
		}
	}
	if len(a.quoted) == 0 {
		return answer{}, refuse("%s has no answer to check %q", id, probe.Cut(probe.Line(check), 60))
	}
	return a, nil
}

func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

// cutLines returns the first lines that fit into an answer.
func cutLines(all []string) []string {
	size := 0
	for i, line := range all {
		if size += len(line) + 1; size > mostText-100 {
			return append(all[:i:i], fmt.Sprintf("... %d more lines", len(all)-i))
		}
	}
	return all
}
