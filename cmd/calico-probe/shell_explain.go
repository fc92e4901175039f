package main

import (
	"context"
	"errors"
	"slices"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
)

// lookups are the commands that use neither the API nor a node.
func lookups() []*prompt.Command {
	return []*prompt.Command{
		{
			Name: "explain", Usage: "CHECK|CAUSE", Short: "explain a check and its answers, or a cause and its fix", Check: explainable,
			Run: func(_ context.Context, call *prompt.Call) error {
				return explainID(call.Out, cause.All(), call.Args[0])
			},
			Complete: func(context.Context, []string) []string { return explainedIDs() },
		},
		{Name: "checks", Short: "list every check", Run: func(_ context.Context, call *prompt.Call) error {
			return writeList(checkList(), call.Out)
		}},
		{Name: "causes", Short: "list every cause", Run: func(_ context.Context, call *prompt.Call) error {
			return writeList(causeList(), call.Out)
		}},
	}
}

func explainable(args []string) error {
	if len(args) != 1 {
		return errors.New("explain takes the ID of a check or a cause; 'checks' and 'causes' list IDs")
	}
	if slices.Contains(cause.All().IDs(), args[0]) {
		return nil
	}
	_, err := probe.Select(examine.Suite(), args, nil)
	return err
}
