package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/must"
)

// nodesAPI returns a kubeconfig for an API with these nodes and their InternalIPs.
func nodesAPI(t *testing.T, nodes ...[]string) string {
	t.Helper()
	var items []any
	for _, n := range nodes {
		var addresses []any
		for _, ip := range n[1:] {
			addresses = append(addresses, map[string]any{"type": "InternalIP", "address": ip})
		}
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": n[0]}, "status": map[string]any{"addresses": addresses},
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind := "NodeList"
		if strings.HasSuffix(r.URL.Path, "/namespaces") {
			kind = "NamespaceList"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": "v1",
			"metadata": map[string]any{}, "items": items})
	}))
	t.Cleanup(server.Close)
	return kubeconfigTo(t, server.URL)
}

// TestNodeFlag requires every verb with --node to accept one node, by the names that kubectl and alerts use.
func TestNodeFlag(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"shell -c help", "preflight", "runbook run node-not-ready", "analyze -"} {
		exit, out, errs := call(t, append(strings.Fields(verb), "--node", "a", "--node", "b")...)
		if exit != report.ExitUsage || out != "" || strings.Count(errs, "\n") != 1 ||
			!strings.Contains(errs, "only one node is allowed") {
			t.Errorf("%s: exit %d, %s%s", verb, exit, out, errs)
		}
	}
	kubeconfig := nodesAPI(t, []string{"node-b", "10.0.0.2", "10.0.0.9"},
		[]string{"node-a", "10.0.0.1", "10.0.0.9"}, []string{"10.0.0.2"})
	for typed, want := range map[string]string{
		"node/node-a": "node-a", "node-b": "node-b", "10.0.0.1": "node-a",
		"10.0.0.2": "10.0.0.2", // a node's name, before another one's address
		"10.0.0.7": "10.0.0.7", "fd00::1": "fd00::1",
		"10.0.0.9": "node-a and node-b have the address 10.0.0.9",
	} {
		a := &app{flags: genericclioptions.NewConfigFlags(true), IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}}
		*a.flags.KubeConfig = kubeconfig
		o := &runFlags{app: a}
		flag := &nodeValue{name: &o.Node}
		client, err := a.client()
		if err = errors.Join(err, flag.Set(typed)); err != nil {
			t.Fatal(err)
		}
		if err := client.Resolve(t.Context(), &o.Options); err != nil {
			if !errors.As(err, new(ui.UsageError)) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v", typed, err)
			}
		} else if o.Node != want {
			t.Errorf("%s: %s, want %s", typed, o.Node, want)
		}
	}
	for _, verb := range []string{"shell -c help", "preflight", "runbook run node-not-ready"} {
		exit, _, errs := call(t, append(strings.Fields(verb), "--kubeconfig", kubeconfig, "--node", "10.0.0.9")...)
		if exit != report.ExitUsage || !strings.Contains(errs, "node-a and node-b have the address 10.0.0.9") {
			t.Errorf("%s: exit %d, %s", verb, exit, errs)
		}
	}
}

// TestNoNode requires a list of nodes if none is named, and a useful error if there is no list.
func TestNoNode(t *testing.T) {
	t.Parallel()
	plain := ui.BadUsage("no node given")
	var many [][]string
	for i := range 12 {
		many = append(many, []string{fmt.Sprintf("node-%02d", 12-i), fmt.Sprintf("10.0.0.%d", i)})
	}
	nowhere := nodesAPI(t, many...) + "-gone"
	for kubeconfig, want := range map[string]string{
		nodesAPI(t, many[10], many[11], many[9]): "or --node NODE; the cluster has node-01, node-02, node-03",
		nodesAPI(t, many...):                     "node-09, node-10 and 2 more",
		nodesAPI(t):                              "no node given", nowhere: "no node given",
	} {
		if _, err := os.Stat(kubeconfig); err != nil && kubeconfig != nowhere {
			t.Fatal(err)
		}
		a := &app{flags: genericclioptions.NewConfigFlags(true), IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}}
		*a.flags.KubeConfig = kubeconfig
		client := must.Get(a.client())(t)
		if err := noNode(t.Context(), client, plain); !errors.As(err, new(ui.UsageError)) ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
