package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestConsent requires every verb that places probes on more than 20 nodes to name the cluster and the number, and to
// create nothing without a person. --yes agrees. There is no question for 20 nodes, or for the API alone.
func TestConsent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := filepath.Join(dir, "all.yaml")
	must.Do(t, os.WriteFile(book, []byte("apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: all}\n"+
		"spec:\n  title: all\n  steps:\n  - name: all\n    fleet: {via: pod}\n"), 0o600))
	for what, args := range map[string]string{
		"run":        "run --all-nodes",
		"by labels":  "run -l kubernetes.io/os=linux", // the API knows something of each
		"mesh":       "mesh",
		"watch":      "mesh --watch --for 5s",
		"bundle":     "bundle --all-nodes --file " + filepath.Join(dir, "bundle.tar.gz"),
		"conditions": "conditions --via pod",
		"runbook":    "runbook run " + book + " --node node-000 --journal " + filepath.Join(dir, "journal"),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := newHealthAPI(t, 21)
			a.breaks(21)
			if !strings.HasPrefix(args, "run -l") { // a silent kubelet takes no probe
				a.breaks(0)
			}
			line := append(strings.Fields(args), "--kubeconfig", a.kubeconfig)
			exit, _, errs := call(t, line...)
			_, posts := a.counts()
			if exit != report.ExitUsage || !strings.Contains(errs, "place probes on 21 nodes of x (http://127.0.0.1:") ||
				!strings.Contains(errs, "--yes") || posts > 0 {
				t.Errorf("21 nodes: exit %d, %d created: %s", exit, posts, errs)
			}
			other := func(n string) { // the next call rejects output of the previous one
				switch what {
				case "runbook":
					line[6] += n
				case "bundle":
					line[3] += n
				}
			}
			other("-yes")
			_, _, errs = call(t, append(line, "--yes")...)
			if _, posts = a.counts(); posts == 0 {
				t.Errorf("with --yes: %s", errs)
			}
			a.locked(func() { a.nodes, a.posts = 20, 0 })
			other("-20")
			_, _, errs = call(t, line...)
			if _, posts = a.counts(); posts == 0 || strings.Contains(errs, "--yes") {
				t.Errorf("20 nodes: %s", errs)
			}
		})
	}
}

// TestConsentOfSteps requires consent for more than 20 nodes over all steps of a runbook.
func TestConsentOfSteps(t *testing.T) {
	t.Parallel()
	named := func(to int) string {
		var out []string
		for i := range to {
			out = append(out, nodeNumber(i))
		}
		return "on: {names: [" + strings.Join(out, ", ") + "]}"
	}
	for what, c := range map[string]struct {
		steps string
		nodes string // in the refusal, "" = there is none
	}{
		"a selector": {"- run: {via: pod, on: {selector: kubernetes.io/os=linux}}", "21 nodes"},
		"names":      {"- run: {via: ephemeral, " + named(21) + "}", "21 nodes"},
		"a wait":     {"- wait: {until: \"true\", within: 5s, run: {via: pod, " + named(22) + "}}", "22 nodes"},
		"two steps":  {"- run: {via: pod}\n  - run: {via: pod, on: {selector: kubernetes.io/os=linux}}", "22 nodes"},
		"few":        {"- run: {via: pod, " + named(1) + "}", ""},
		"by the API": {"- run: {via: api, " + named(21) + "}", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a, dir := newHealthAPI(t, 22), t.TempDir()
			book := filepath.Join(dir, "steps.yaml")
			if err := os.WriteFile(book, []byte("apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: steps}\n"+
				"spec:\n  title: steps\n  steps:\n  "+c.steps+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			exit, out, errs := call(t, "runbook", "run", book, "--node", "node-000", "--kubeconfig", a.kubeconfig,
				"--journal", filepath.Join(dir, "journal"), "--run-timeout", "2s", "--baselines", "0")
			refused := strings.Contains(errs, "would place probes on "+c.nodes+" of x (http://127.0.0.1:") &&
				strings.Contains(errs, "--yes") && exit == report.ExitUsage
			if refused != (c.nodes != "") || refused && what != "two steps" && a.posts > 0 {
				t.Errorf("exit %d, %d created: %s%s", exit, a.posts, out, errs)
			}
		})
	}
}

// TestConsentByAPI requires that there is no question if nothing is created.
func TestConsentByAPI(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 30)
	for _, args := range []string{"run --all-nodes --via api", "conditions --dry-run", "bundle --all-nodes --dry-run"} {
		exit, _, errs := call(t, append(strings.Fields(args), "--kubeconfig", a.kubeconfig)...)
		if _, posts := a.counts(); exit != report.ExitHealthy || posts > 0 {
			t.Errorf("%s: exit %d, %d created: %s", args, exit, posts, errs)
		}
	}
}

// TestConsentUnattended requires that 'serve' never places probes on more than 20 nodes, whatever its flags, and that a
// program whose stdin is not a terminal needs --yes.
func TestConsentUnattended(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 1)
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig = &a.kubeconfig
	app := &app{flags: flags}
	app.many.yes = true
	client := must.Get(app.unattended())(t)
	for nodes, refused := range map[int]bool{1: false, 20: false, 21: true} {
		if err := client.Agree(t.Context(), nodes); (err != nil) != refused {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
	many := slices.Repeat([]string{"n"}, 21)
	for i := range many {
		many[i] = nodeNumber(i)
	}
	for via, refused := range map[string]bool{injector.MethodPod: true, injector.MethodAPI: false} {
		serve := &serveOptions{runFlags: &runFlags{app: app}}
		world := serve.world(slog.New(slog.DiscardHandler), client, examine.Options{Via: via})
		few, more := world.Agree(t.Context(), runbook.Run{}, many[:20]), world.Agree(t.Context(), runbook.Run{}, many[20:])
		if few != nil || (more != nil) != refused {
			t.Errorf("a runbook of serve via %s: %v, %v", via, few, more)
		}
	}
	asked := app.agreement(nil)
	if err := asked(t.Context(), 21); err != nil {
		t.Errorf("with --yes: %v", err)
	}
	app.many.yes = false
	if err := asked(t.Context(), 21); err == nil || !strings.Contains(fmt.Sprint(err), "21 nodes of x (http://") {
		t.Errorf("without: %v", err)
	}
}
