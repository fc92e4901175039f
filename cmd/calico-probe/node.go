package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// nodeFlag adds --node, which accepts one name, as plain text or as 'kubectl get nodes -o name' prints it.
func nodeFlag(f *pflag.FlagSet, name *string, usage string) { nodeFlagNamed(f, "node", name, usage) }

// nodeFlagNamed adds a flag like --node under another name.
func nodeFlagNamed(f *pflag.FlagSet, flag string, name *string, usage string) {
	f.Var(&nodeValue{name: name}, flag, usage)
}

type nodeValue struct {
	name *string
	set  bool
}

func (n *nodeValue) String() string {
	if n.name == nil { // pflag calls it on the zero value, to find the default
		return ""
	}
	return *n.name
}

func (n *nodeValue) Type() string { return "string" }

func (n *nodeValue) Set(typed string) error {
	if n.set {
		return errors.New("only one node is allowed: run the command once per node, or use 'calico-probe serve'")
	}
	*n.name, n.set = nodeName(typed), true
	return nil
}

// nodeName returns NAME for kubectl's node/NAME.
func nodeName(typed string) string {
	for _, kind := range []string{"node/", "nodes/", "no/"} { // kubectl's names for nodes
		if name, ok := strings.CutPrefix(typed, kind); ok {
			return name
		}
	}
	return typed
}

// listedNodes is the maximum number of nodes in a message. listLimit is the maximum time that a message waits for the
// node list.
const (
	listedNodes = 10
	listLimit   = 3 * time.Second
)

// noNode returns the error of a run without --node. On a terminal the error lists the cluster's nodes if possible.
func noNode(ctx context.Context, client *examine.Client, plain error) error {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	reader, err := client.Reader()
	if err != nil {
		return plain
	}
	all, err := reader.NodeNames(ctx)
	if err != nil || len(all) == 0 {
		return plain
	}
	maps.DeleteFunc(all, func(key, name string) bool { return key != name }) // remove keys that are addresses
	names, more := slices.Sorted(maps.Keys(all)), ""
	if n := len(names) - listedNodes; n > 0 {
		names, more = names[:listedNodes], fmt.Sprintf(" and %d more", n)
	}
	return ui.BadUsage("no node given: add NODE or --node NODE; the cluster has %s%s", strings.Join(names, ", "), more)
}
