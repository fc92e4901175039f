package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/report"
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
		if err != nil && !strings.Contains(err.Error(), c.m.hostname+" and not "+c.node) && !strings.Contains(err.Error(), c.m.hostname+",") {
			t.Errorf("%s: says not what this machine is called: %v", name, err)
		}
	}
}

func TestHere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if m, err := here(root); err != nil || m.nodename != "" || m.unsure != "" {
		t.Errorf("no node at all: %+v, %v", m, err)
	}
	write := func(name, text string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("var/lib/kubelet/config.yaml", "")
	if m, err := here(root); err != nil || !strings.Contains(m.unsure, "kubelet") {
		t.Errorf("a kubelet, and no name: %+v, %v", m, err)
	}
	write("var/lib/calico/nodename", "worker-3\n")
	if m, err := here(root); err != nil || m.nodename != "worker-3" || m.unsure != "" {
		t.Errorf("a node: %+v, %v", m, err)
	}
}

func TestLocalOfAnotherMachine(t *testing.T) {
	t.Parallel()
	code, _, errs := call(t, "run", "--via", "local", "--node", "worker-3.invalid", "--checks", "node-clock")
	host, _ := os.Hostname()
	if code != report.ExitUsage || !strings.Contains(errs, host) {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestDurationWithoutUnit(t *testing.T) {
	t.Parallel()
	code, _, errs := call(t, "run", "--node", "x", "--timeout", "60")
	if code != report.ExitUsage || !strings.Contains(errs, "write 60s") {
		t.Errorf("code %d: %s", code, errs)
	}
}
