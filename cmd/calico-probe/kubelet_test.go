package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestKubeletIsForPeople requires that --via kubelet is used only if a person names it: not by auto, and by no program,
// even if its user allows it. Its right is granted only if requested by name.
func TestKubeletIsForPeople(t *testing.T) {
	t.Parallel()
	const via = injector.MethodKubelet
	if slices.Contains(injector.FallbackNames(), via) || !slices.Contains(injector.PersonNames(), via) {
		t.Error("auto or a program would take it")
	}
	for _, args := range []string{
		"serve --store " + t.TempDir() + " --via " + via, "mcp --via " + via, "conditions --server https://127.0.0.1:1 --via " + via,
		"run --all-nodes --via " + via, "shell --node a --via " + via, "capture --node a 10.0.0.1 --via " + via,
		"run --node a --via pod," + via, "run --node a --checks felix-live --via " + via,
	} {
		if exit, _, errs := call(t, strings.Fields(args)...); exit != report.ExitUsage || !strings.Contains(errs, via) {
			t.Errorf("%s: exit %d: %s", args, exit, errs)
		}
	}
	o := &mcpOptions{runFlags: &runFlags{Options: examine.Options{Via: examine.ViaAuto}}}
	if o.allows(via) || o.allows("pod,"+via) || !o.allows("pod,ssh") || !o.allows(injector.MethodOutside) {
		t.Error("an agent may choose it")
	}
	if o.allows(injector.MethodLocal) {
		t.Error("an agent may have the machine asked that its server runs on, which nobody named")
	}
	if o.Via = injector.MethodLocal; !o.allows(injector.MethodLocal) || o.allows("pod") {
		t.Error("an agent may not choose what was named, or may choose another")
	}
	book := filepath.Join(t.TempDir(), "book.yaml")
	for taken, want := range map[string]int{
		"profile: standard": report.ExitHealthy, "via: api": report.ExitHealthy, "via: " + via: report.ExitUsage,
	} {
		text := strings.ReplaceAll(read(t, "../../internal/runbook/builtin/before-reboot.yaml"), "profile: standard", taken)
		must.Do(t, os.WriteFile(book, []byte(text), 0o600))
		if exit, out, errs := call(t, "runbook", "lint", book); exit != want {
			t.Errorf("a runbook's step with %s: exit %d: %s%s", taken, exit, out, errs)
		}
	}
	const right = "nodes/proxy"
	if exit, out, errs := call(t, "manifests", "--serve"); exit != 0 || strings.Contains(out, right) {
		t.Errorf("exit %d: the right is granted unasked: %s", exit, errs)
	}
	if exit, out, errs := call(t, "manifests", "--methods", via); exit != 0 || strings.Count(out, right) != 1 {
		t.Errorf("exit %d: the right is not granted: %s%s", exit, out, errs)
	}
	for _, file := range []string{"kustomize/base/rights.yaml", "kustomize/serve/serve.yaml", "conditions.yaml"} {
		if strings.Contains(read(t, "../../deploy/"+file), right) {
			t.Errorf("deploy/%s grants %s", file, right)
		}
	}
}
