package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/calico-probe/calico-probe/internal/prompt"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// offered is the number of nodes that the list offers: as many as fit on a screen.
const offered = 20

// pick lets the user choose a node; "" = none.
func (c *Session) pick(ctx context.Context, e *prompt.Editor) (string, error) {
	client, err := c.client.Reader()
	if err != nil {
		return "", err
	}
	c.client.Progress("reading the state of the nodes from the API")
	nodes, gaps, err := suiteapi.Standings(ctx, client)
	switch {
	case err != nil:
		return "", err
	case len(nodes) == 0:
		return "", errors.New("this cluster has no nodes")
	}
	for _, gap := range gaps {
		c.client.Note("%s", gap)
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Node)
	}
	complete := func(line string, pos int) (string, []string, string) {
		return "", prompt.Matching(names, line[:len(string([]rune(line)[:pos]))]), string([]rune(line)[pos:])
	}
	show(c.stderr, nodes, nodes)
	for {
		typed, err := e.Read(ctx, fmt.Sprintf("node (number or name; Enter = %s): ", names[0]), c.opts.Idle, complete)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, prompt.ErrDropped):
			return "", nil
		case err != nil:
			return "", err
		}
		fits := chosen(nodes, strings.TrimSpace(typed))
		switch len(fits) {
		case 1:
			return fits[0].Node, nil
		case 0:
			ui.Say(c.stderr, "unknown node %q: type a number from the list, a node name or part of a name; Ctrl-D leaves", strings.TrimSpace(typed))
		default:
			show(c.stderr, nodes, fits)
		}
	}
}

// chosen returns the nodes that match the typed text: the node with that name, otherwise with that number, otherwise
// all nodes with the text in their name.
func chosen(nodes []suiteapi.Standing, typed string) []suiteapi.Standing {
	if typed == "" {
		return nodes[:1]
	}
	var within []suiteapi.Standing
	for _, n := range nodes {
		if n.Node == typed {
			return []suiteapi.Standing{n}
		}
		if strings.Contains(n.Node, typed) {
			within = append(within, n)
		}
	}
	if i, err := strconv.Atoi(typed); err == nil && i > 0 && i <= min(len(nodes), offered) {
		return nodes[i-1 : i]
	}
	return within
}

// show lists the worst of some nodes, with their numbers in the list of all nodes if they have one.
func show(w io.Writer, all, some []suiteapi.Standing) {
	number := map[string]string{}
	for i, n := range all[:min(len(all), offered)] {
		number[n.Node] = strconv.Itoa(i + 1)
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, n := range some[:min(len(some), offered)] {
		state := string(n.Status)
		if n.Status == probe.OK {
			state = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", number[n.Node], n.Node, state, probe.OneLine(n.Saw))
	}
	_ = t.Flush() // writes to memory
	width := ui.Width(w)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, ui.Cut(strings.TrimRight(line, " \n"), width))
	}
	if more := len(some) - offered; more > 0 {
		fmt.Fprintf(w, "and %d more: type a part of a name to list the matching ones\n", more)
	}
}
