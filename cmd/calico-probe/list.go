package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// listFormats are the values of -o for every verb that lists something, as in 'kubectl get'.
var listFormats = []string{"table", "wide", "name", "json", "yaml"}

// listing is the output of a list verb.
type listing[T any] struct {
	kind    string // for -o name: KIND/NAME on each line
	columns []column[T]
	items   func() ([]T, error)
}

// column is one column of the table. The first column has the name.
type column[T any] struct {
	head string
	text func(T) string
	wide bool // only -o wide shows it
}

// listVerb returns the verb for a listing. The verb's arguments are words that filter the rows.
func listVerb[T any](a *app, name, short string, l listing[T]) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: name + " [WORD...]", Short: short,
		Long: short + ". If you pass words, it lists only rows that contain all of them.",
		RunE: func(_ *cobra.Command, words []string) error {
			if !slices.Contains(listFormats, format) {
				return ui.BadUsage("unknown output format %q: use one of %s", format, strings.Join(listFormats, ", "))
			}
			items, err := l.matching(words)
			if err != nil {
				return err
			}
			if len(items) == 0 {
				ui.Say(a.ErrOut, "no %s contains %s", l.kind, strings.Join(words, " and "))
			}
			return l.write(a.Out, format, items)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&format, "output", "o", listFormats[0], "output format: "+strings.Join(listFormats, ", "))
	completions(cmd, map[string]completer{"output": oneOf(listFormats)})
	return cmd
}

// matching returns the items whose columns in the plain table contain every word.
func (l listing[T]) matching(words []string) ([]T, error) {
	items, err := l.items()
	if err != nil {
		return nil, err
	}
	out := []T{} // prints [] in JSON instead of null
	for _, item := range items {
		var row strings.Builder
		for _, c := range l.columns {
			if !c.wide {
				row.WriteString(strings.ToLower(c.text(item)) + "\n")
			}
		}
		lacks := func(word string) bool { return !strings.Contains(row.String(), strings.ToLower(word)) }
		if !slices.ContainsFunc(words, lacks) {
			out = append(out, item)
		}
	}
	return out, nil
}

func (l listing[T]) write(out io.Writer, format string, items []T) error {
	switch format {
	case "json":
		return report.WriteJSON(out, "  ", items)
	case "yaml":
		return report.WriteYAML(out, items)
	case "name":
		for _, item := range items {
			if _, err := fmt.Fprintf(out, "%s/%s\n", l.kind, probe.OneLine(l.columns[0].text(item))); err != nil {
				return err
			}
		}
		return nil
	}
	return l.table(out, format == "wide", items)
}

// table writes a row for each item, and a header only if there are rows.
func (l listing[T]) table(out io.Writer, wide bool, items []T) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(text func(column[T]) string) {
		var cells []string
		for _, c := range l.columns {
			if wide || !c.wide {
				cells = append(cells, probe.OneLine(text(c)))
			}
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // Flush returns its error
	}
	if len(items) > 0 {
		row(func(c column[T]) string { return c.head })
	}
	for _, item := range items {
		row(func(c column[T]) string { return c.text(item) })
	}
	return w.Flush()
}

// writeList prints the whole table of a listing.
func writeList[T any](l listing[T], out io.Writer) error {
	items, err := l.items()
	if err != nil {
		return err
	}
	return l.table(out, false, items)
}
