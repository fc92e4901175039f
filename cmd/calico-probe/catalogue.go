package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

func (a *app) checks() *cobra.Command {
	return a.list("checks", "List every check", listChecks, func() any { return described(examine.Suite()) })
}

// list is a verb that lists something for people, or as JSON.
func (a *app) list(use, short string, table func(io.Writer) error, whole func() any) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "table":
				return table(a.Out)
			case "json":
				return report.WriteJSON(a.Out, "  ", whole())
			}
			return badUsage("unknown output format %q: use table or json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func listChecks(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tASKED FROM\tPROFILE\tTAGS\tQUESTION")
	for _, c := range examine.Suite() {
		d := describe(c)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.ID, strings.Join(d.From, ","), d.Profile, strings.Join(d.Tags, ","), d.Asks)
	}
	return w.Flush()
}

// description is a check as 'checks -o json' shows it.
type description struct {
	ID       string   `json:"id"`
	Asks     string   `json:"asks"`
	Doc      string   `json:"doc"`
	From     []string `json:"from"`
	Profile  string   `json:"profile"` // the smallest that has it
	Tags     []string `json:"tags,omitempty"`
	Needs    []string `json:"needs,omitempty"`
	Access   []string `json:"access,omitempty"`
	Deadline string   `json:"deadline"`
}

func describe(c *probe.Check) description {
	d := description{
		ID: c.ID, Asks: c.Asks, Doc: c.Doc, From: []string{string(c.From)}, Profile: string(cmp.Or(c.In, probe.Quick)),
		Tags: c.Tags, Access: c.Access, Deadline: c.Deadline().String(),
	}
	if c.Inside {
		d.From = append(d.From, string(probe.FromPod))
	}
	for _, n := range c.Needs {
		d.Needs = append(d.Needs, n.ID)
	}
	return d
}

// rows are what there is to know of a check beside its text.
func (d description) rows() [][2]string {
	return slices.DeleteFunc([][2]string{
		{"asked from", strings.Join(d.From, ", ")}, {"profile", d.Profile}, {"deadline", d.Deadline}, {"needs", strings.Join(d.Needs, ", ")},
		{"touches", strings.Join(d.Access, ", ")}, {"tags", strings.Join(d.Tags, ", ")},
	}, func(row [2]string) bool { return row[1] == "" })
}

func described(suite []*probe.Check) []description {
	out := make([]description, 0, len(suite))
	for _, c := range suite {
		out = append(out, describe(c))
	}
	return out
}

func (a *app) explain() *cobra.Command {
	return &cobra.Command{
		Use: "explain CHECK|CAUSE", Short: "Say why a check matters and what its answers mean, or how a cause comes about and what to do",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(examine.CheckIDs(examine.Suite()), causeIDs()...), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badUsage("explain takes the ID of a check or a cause; 'calico-probe checks' and 'calico-probe causes' list them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return explainID(a.Out, args[0]) },
	}
}

// explainID says what there is to know about a check or a cause, or about all checks
// that begin so or have that tag.
func explainID(out io.Writer, id string) error {
	if i := slices.Index(causeIDs(), id); i >= 0 {
		explainCause(out, diagnose.Rules()[i])
		return nil
	}
	found, err := probe.Select(examine.Suite(), []string{id}, nil)
	if err != nil {
		return badUsage("unknown check or cause %q%s; 'checks' and 'causes' list what there is", id, probe.DidYouMean(id, slices.Concat(causeIDs(), selectors())))
	}
	for i, d := range described(found) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: %s\n\n%s\n\n", d.ID, d.Asks, d.Doc)
		for _, row := range d.rows() {
			fmt.Fprintf(out, "%-10s  %s\n", row[0], row[1])
		}
	}
	return nil
}

// causes lists what the rules can name.
func (a *app) causes() *cobra.Command {
	return a.list("causes", "List every cause that can be named", listCauses, func() any {
		type row struct {
			ID       string    `json:"id"`
			Title    string    `json:"title"`
			Doc      string    `json:"doc"`
			Fix      probe.Fix `json:"fix"` // names in braces are put in by a run
			Explains []string  `json:"explains,omitempty"`
		}
		var rows []row
		for _, r := range diagnose.Rules() {
			rows = append(rows, row{r.ID, r.Title, r.Doc, r.Fix, r.Explains})
		}
		return rows
	})
}

func listCauses(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tFAULT")
	for _, r := range diagnose.Rules() {
		fmt.Fprintf(w, "%s\t%s\n", r.ID, r.Title)
	}
	return w.Flush()
}

func explainCause(out io.Writer, r *diagnose.Rule) {
	fmt.Fprintf(out, "%s: %s\n\n%s\n\nfix: %s\n", r.ID, r.Title, r.Doc, r.Fix.Says)
	for _, block := range r.Fix.Blocks() {
		if block.If != "" {
			fmt.Fprintf(out, "only if %s:\n", block.If)
		}
		for _, command := range block.Commands {
			fmt.Fprintf(out, "     %s\n", command)
		}
	}
	fmt.Fprintf(out, "touches: %s\n", r.Fix.Radius)
	if len(r.Explains) > 0 {
		fmt.Fprintf(out, "\nexplains %s\n", strings.Join(r.Explains, ", "))
	}
}

func causeIDs() []string {
	var ids []string
	for _, r := range diagnose.Rules() {
		ids = append(ids, r.ID)
	}
	return ids
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badUsage("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
