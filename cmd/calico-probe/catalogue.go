package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/explain"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

func (a *app) checks() *cobra.Command {
	return listVerb(a, "checks", "List the checks", checkList())
}

func checkList() listing[explain.Check] {
	return listing[explain.Check]{
		kind:  "check",
		items: func() ([]explain.Check, error) { return explain.Checks(examine.Suite()), nil },
		columns: []column[explain.Check]{
			{head: "ID", text: func(d explain.Check) string { return d.ID }},
			{head: "RUNS FROM", text: func(d explain.Check) string { return strings.Join(d.From, ",") }},
			{head: "PROFILE", text: func(d explain.Check) string { return d.Profile }},
			{head: "TAGS", text: func(d explain.Check) string { return strings.Join(d.Tags, ",") }},
			{head: "NEEDS", text: func(d explain.Check) string { return strings.Join(d.Needs, ",") }, wide: true},
			{head: "TOUCHES", text: func(d explain.Check) string { return strings.Join(d.Access, ",") }, wide: true},
			{head: "DEADLINE", text: func(d explain.Check) string { return d.Deadline }, wide: true},
			{head: "QUESTION", text: func(d explain.Check) string { return d.Asks }},
		},
	}
}

func (a *app) causes() *cobra.Command {
	return listVerb(a, "causes", "List the causes that a run can report", causeList())
}

// causeInfo is a cause in 'causes -o json'.
type causeInfo struct {
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Doc      string    `json:"doc"`
	Advice   string    `json:"advice,omitempty"`
	Fix      probe.Fix `json:"fix"` // a run replaces the names in braces
	Runbooks []string  `json:"runbooks,omitempty"`
	Explains []string  `json:"explains,omitempty"`
}

func causeList() listing[causeInfo] {
	return listing[causeInfo]{
		kind: "cause",
		items: func() ([]causeInfo, error) {
			var all []causeInfo
			for _, r := range cause.All().Rules {
				all = append(all, causeInfo{r.ID, r.Title, r.Doc, r.Advice, r.Fix, r.Runbooks, r.Explains})
			}
			return all, nil
		},
		columns: []column[causeInfo]{
			{head: "ID", text: func(c causeInfo) string { return c.ID }},
			{head: "ALSO ACCOUNTS FOR", text: func(c causeInfo) string { return strings.Join(c.Explains, ",") }, wide: true},
			{head: "FAULT", text: func(c causeInfo) string { return c.Title }},
		},
	}
}

// explainedIDs are the IDs that explain accepts.
func explainedIDs() []string { return append(examine.CheckIDs(examine.Suite()), cause.All().IDs()...) }

// noArguments rejects arguments. If the verb has --node, it accepts nodes: NODE is the same as --node NODE.
func noArguments(cmd *cobra.Command, args []string) error {
	node := cmd.Flags().Lookup("node")
	if node == nil && len(args) > 0 {
		return ui.BadUsage("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	for _, typed := range args {
		if slices.Contains(selectors(), typed) && cmd.Flags().Lookup("checks") != nil {
			return ui.BadUsage("%q names checks: use '%s NODE --checks %s'", typed, cmd.CommandPath(), typed)
		}
		if err := node.Value.Set(typed); err != nil {
			return ui.BadUsage("%q: %w", typed, err)
		}
		node.Changed = true
	}
	return nil
}
