package agents

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
)

// The valid node names, explainable words, and IDs of causes and checks. Other arguments are rejected here.
var (
	nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	ownName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./-]{0,99}$`)
	plainID  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

func checkNodes(names ...string) error {
	for _, n := range names {
		if !nodeName.MatchString(n) {
			return refuse("%q is not a valid node name", probe.Cut(probe.Line(n), 60))
		}
	}
	return nil
}

func checkNodesOf(in nodesArguments) error { return checkNodes(in.Nodes...) }

func (s *Server) checkRun(in runArguments) error {
	if err := checkNodes(in.Node); err != nil {
		return err
	}
	if !s.world.Probes && in.Via != viaAPI && in.Via != "" {
		return refuse("probes are not allowed: calico-probe mcp was started without --allow-probes; use via=api")
	}
	return nil
}

// usable returns the index of the valid runbook with this name, or -1.
func (s *Server) usable(name string) int {
	return slices.IndexFunc(s.world.Runbooks, func(it runbook.Item) bool { return it.Name == name && it.Err == nil })
}

func (s *Server) checkRunbook(in runbookArguments) error {
	switch {
	case in.Name == "":
		return nil
	case s.usable(in.Name) < 0:
		return refuse("no usable runbook %q: call runbook without a name to list the runbooks",
			probe.Cut(probe.Line(in.Name), 60))
	case in.Node == "":
		return nil
	case !s.world.Probes || s.world.Follow == nil:
		return refuse("runbooks are not allowed to run: calico-probe mcp was started without --allow-probes")
	}
	return checkNodes(in.Node)
}

// These functions return the question to a person before a tool creates something, or "" for no question. The arguments
// are already checked.

func (s *Server) confirmRun(in runArguments) string {
	if in.Via == viaAPI || !s.world.Probes {
		return ""
	}
	return fmt.Sprintf("Place a read-only probe pod on node %s, and if something is wrong there, on a few healthy nodes to "+
		"compare? Each probe ends automatically.", in.Node)
}

func confirmMesh(in nodesArguments) string {
	const most = 10
	where := "every node of the cluster"
	if n := len(in.Nodes); n > 0 {
		where = "node " + strings.Join(in.Nodes[:min(n, most)], ", ")
		if n > most {
			where += fmt.Sprintf(" and %d more", n-most)
		}
	}
	if in.Selector != "" {
		where += fmt.Sprintf(" with the labels %q", probe.Cut(probe.Line(in.Selector), 200))
	}
	return "Place a read-only probe pod on " + where + "? Each probe ends automatically."
}

// scopeLimit is the time limit for counting the nodes in a question.
const scopeLimit = 30 * time.Second

// scopeMesh describes a mesh's nodes for the question; "" if World has no Scope.
func (s *Server) scopeMesh(ctx context.Context, in nodesArguments) (string, error) {
	if s.world.Scope == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, scopeLimit)
	defer cancel()
	scope, err := s.world.Scope(ctx, in.Nodes, in.Selector)
	if err != nil {
		return "", err
	}
	return " That is " + scope + ".", nil
}

func confirmRunbook(in runbookArguments) string {
	if in.Name == "" || in.Node == "" {
		return ""
	}
	return fmt.Sprintf("Run runbook %s on node %s, with read-only probe pods and without actions? "+
		"It notifies the webhooks that it names.", in.Name, in.Node)
}

// viaAPI is the access method that only reads the API.
const viaAPI = "api"
