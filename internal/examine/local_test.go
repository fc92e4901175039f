package examine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestWhetherThisMachineIsTheNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m      machine
		node   string
		is     bool
		unsure string
	}{
		"by its host name":           {machine{hostname: "worker-3"}, "worker-3", true, ""},
		"by a longer host name":      {machine{hostname: "worker-3.example.com"}, "worker-3", true, ""},
		"by a shorter host name":     {machine{hostname: "worker-3"}, "worker-3.example.com", true, ""},
		"in another domain":          {machine{hostname: "worker-3.a.example.com"}, "worker-3.b.example.com", false, ""},
		"by the name Calico has":     {machine{hostname: "ip-10-0-0-3", nodename: "worker-3"}, "worker-3", true, ""},
		"while Calico's is wrong":    {machine{hostname: "worker-3", nodename: "worker-3.example.com"}, "worker-3", true, ""},
		"by its address":             {machine{hostname: "vm", has: func(string) bool { return true }}, "10.0.0.3", true, ""},
		"a laptop":                   {machine{hostname: "vm"}, "worker-3", false, ""},
		"another node":               {machine{hostname: "worker-4", nodename: "worker-4"}, "worker-3", false, ""},
		"a node that knows no name":  {machine{hostname: "ip-10-0-0-3", unsure: "no name"}, "worker-3", true, "no name"},
		"nothing said by Calico yet": {machine{hostname: "vm", nodename: ""}, "vm2", false, ""},
	} {
		if c.m.has == nil {
			c.m.has = func(string) bool { return false }
		}
		unsure, err := c.m.is(c.node)
		if (err == nil) != c.is || unsure != c.unsure {
			t.Errorf("%s: %q, %v", name, unsure, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.m.hostname+" and not "+c.node) &&
			!strings.Contains(err.Error(), c.m.hostname+",") {
			t.Errorf("%s: says not what this machine is called: %v", name, err)
		}
	}
}

func TestHere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if m, err := thisMachine(root); err != nil || m.nodename != "" || m.unsure != "" || !m.alien {
		t.Errorf("no node at all: %+v, %v", m, err)
	}
	write := func(name, text string) {
		file := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("var/lib/kubelet/config.yaml", "")
	if m, err := thisMachine(root); err != nil || !strings.Contains(m.unsure, "kubelet") || m.alien {
		t.Errorf("a kubelet, and no name: %+v, %v", m, err)
	}
	write("var/lib/calico/nodename", "worker-3\n")
	if m, err := thisMachine(root); err != nil || m.nodename != "worker-3" || m.unsure != "" {
		t.Errorf("a node: %+v, %v", m, err)
	}
}

// TestSignsOfANode requires that one sign suffices, even on a node without kubelet or Calico, and that a laptop with
// podman has no sign.
func TestSignsOfANode(t *testing.T) {
	t.Parallel()
	for _, sign := range append(signs(), "/etc/cni/net.d/87-podman-bridge.conflist", "/var/lib/containerd") {
		root := t.TempDir()
		must.Do(t, os.MkdirAll(filepath.Join(root, sign), 0o755))
		m, err := thisMachine(root)
		if want := !slices.Contains(signs(), sign); err != nil || m.alien != want {
			t.Errorf("%s: %+v, %v", sign, m, err)
		}
	}
}

// TestLocalOnNoNode requires that a run does not check a machine that is not a node, and so reports no fault. A session
// continues and reports it.
func TestLocalOnNoNode(t *testing.T) {
	t.Parallel()
	const says = "this machine does not look like a Calico node: laptop has no files of Kubernetes or Calico (no /var/lib/kubelet, /etc/kubernetes, /var/lib/calico and so on)"
	for name, c := range map[string]struct {
		alien, keep, refused, noted bool
	}{
		"a run on a laptop":     {alien: true, refused: true},
		"a session on a laptop": {alien: true, keep: true, noted: true},
		"a run on a node":       {},
	} {
		var errs bytes.Buffer
		var got seenEvents
		r := newTestRun(Options{Node: "laptop", Via: injector.MethodLocal, InSession: c.keep}, &errs, &got)
		step, err := r.localOn(machine{hostname: "laptop", alien: c.alien})
		if err != nil {
			t.Fatal(err)
		}
		_, err = step.Open(t.Context(), injector.Options{}) // this client has no probe, as a run on a node says
		refused, ok := errors.AsType[*injector.PlacementError](err)
		if !ok {
			t.Fatalf("%s: %v", name, err)
		}
		asked := refused.Reason == facts.ReasonSupport
		if noted := strings.Contains(errs.String(), says); asked == c.refused || noted != c.noted {
			t.Errorf("%s: asked %v, %s", name, asked, &errs)
		}
		if !c.refused {
			continue
		}
		must.Get(r.place(t.Context(), r.attempts([]injector.Method{step}, nil, nil), nil))(t)
		if len(got) != 1 || !strings.HasPrefix(got[0].Result.Saw, says+"; the ") {
			t.Errorf("%s: %+v", name, got)
		}
		got = nil
		if err := r.Conclude(); !errors.Is(err, ui.Exit(report.ExitIncomplete)) || len(got) != 1 {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}
