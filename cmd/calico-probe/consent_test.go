package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/calico-probe/calico-probe/report"
)

// TestConsent wants every verb that places probes on more than 20 nodes to name the cluster and the number and to
// create nothing where there is nobody to ask, and --yes to answer. On 20 nodes, and by the API alone, nobody is asked.
func TestConsent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := filepath.Join(dir, "all.yaml")
	if err := os.WriteFile(book, []byte("apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: all}\n"+
		"spec:\n  title: all\n  steps:\n  - name: all\n    fleet: {via: pod}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
			for i := range a.nodes { // a silent kubelet takes no probe
				a.silent[nodeNumber(i)] = strings.HasPrefix(args, "run -l")
			}
			line := append(strings.Fields(args), "--kubeconfig", a.kubeconfig)
			exit, _, errs := call(t, line...)
			if exit != report.ExitUsage || !strings.Contains(errs, "place probes on 21 nodes of x (http://127.0.0.1:") ||
				!strings.Contains(errs, "--yes") || a.posts > 0 {
				t.Errorf("21 nodes: exit %d, %d created: %s", exit, a.posts, errs)
			}
			if what == "runbook" {
				line[6] += "-yes"
			}
			if _, _, errs = call(t, append(line, "--yes")...); a.posts == 0 {
				t.Errorf("with --yes: %s", errs)
			}
			a.nodes, a.posts = 20, 0
			if what == "runbook" {
				line[6] += "-20"
			}
			if _, _, errs = call(t, line...); a.posts == 0 || strings.Contains(errs, "--yes") {
				t.Errorf("20 nodes: %s", errs)
			}
		})
	}
}

// TestConsentByAPI wants nobody to be asked about what creates nothing.
func TestConsentByAPI(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 30)
	for _, args := range []string{"run --all-nodes --via api", "conditions --dry-run", "bundle --all-nodes --dry-run"} {
		exit, _, errs := call(t, append(strings.Fields(args), "--kubeconfig", a.kubeconfig)...)
		if exit != report.ExitHealthy || a.posts > 0 {
			t.Errorf("%s: exit %d, %d created: %s", args, exit, a.posts, errs)
		}
	}
}

// TestConsentUnattended wants 'serve', whose client is unattended, refused more than 20 nodes whatever the flags; and a
// program whose stdin is not a person's refused without --yes.
func TestConsentUnattended(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 1)
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig = &a.kubeconfig
	app := &app{flags: flags}
	app.many.yes = true
	client, err := app.unattended()
	if err != nil {
		t.Fatal(err)
	}
	for nodes, refused := range map[int]bool{1: false, 20: false, 21: true} {
		if err := client.Agree(t.Context(), nodes); (err != nil) != refused {
			t.Errorf("%d nodes: %v", nodes, err)
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
