package do

import (
	"bytes"
	"context"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// parsed returns the function for typed arguments.
func parsed(t *testing.T, tool string, args ...string) probe.ToolFunc {
	t.Helper()
	all := All()
	run, err := all[slices.IndexFunc(all, func(o *probe.Tool) bool { return o.Name == tool })].Parse(args)
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return run
}

// use runs a tool on a fake node with files below root.
func use(ctx context.Context, t *testing.T, root, tool string, args ...string) (probe.Result, string) {
	t.Helper()
	var out bytes.Buffer
	r := parsed(t, tool, args...)(ctx, &probe.Job{Host: &probe.Host{Root: root, Proc: "/proc"}, Out: &out})
	return r, out.String()
}

// wants fails unless the result has the status and contains all of saw.
func wants(t *testing.T, r probe.Result, s probe.Status, saw ...string) {
	t.Helper()
	for _, text := range saw {
		if !strings.Contains(r.Saw, text) {
			t.Errorf("%q is not in %q", text, r.Saw)
		}
	}
	if r.Status != s {
		t.Errorf("got %s, want %s: %s", r.Status, s, r.Saw)
	}
}

func files(t *testing.T, of map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range of {
		full := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must.Do(t, os.WriteFile(full, []byte(text), 0o600))
	}
	return root
}

// TestAll checks that client and node have the same tools, in the same order.
func TestAll(t *testing.T) {
	t.Parallel()
	names := func(all []*probe.Tool) (out []string) {
		for _, tool := range all {
			out = append(out, tool.Name)
		}
		return out
	}
	if got, want := names(All()), names(tools.All()); !slices.Equal(got, want) {
		t.Errorf("on the node %v, typed %v", got, want)
	}
}

// TestPingName checks that a name is resolved on the node: in its hosts file, or by its servers.
func TestPingName(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{"etc/hosts": "127.0.0.1 web.test\n", "etc/resolv.conf": "nameserver x\n"})
	r, _ := use(t.Context(), t, root, "ping", "-c1", "no.test")
	wants(t, r, probe.Fail, "names no usable server")
	if _, out := use(t.Context(), t, root, "ping", "-c1", "web.test"); !strings.Contains(out,
		"web.test is 127.0.0.1, by /etc/hosts") {
		t.Error(out)
	}
	var out bytes.Buffer
	known := map[string][]netip.Addr{"web.test": {netip.MustParseAddr("127.0.0.2")}}
	parsed(t, "ping", "-c1", "web.test")(t.Context(),
		&probe.Job{Host: &probe.Host{Root: root, Proc: "/proc"}, Out: &out, Hosts: known})
	if !strings.Contains(out.String(), "web.test is 127.0.0.2, by the API (the node's InternalIP)") {
		t.Errorf("a node's name: %s", out.String())
	}
}

// TestNothingVisible checks that an access method that shows nothing is not reported as a fault of the node.
func TestNothingVisible(t *testing.T) {
	t.Parallel()
	h := &probe.Host{Root: t.TempDir(), Proc: "/proc", Only: []string{"/none"}}
	for _, line := range []string{"bird show status", "ps", "ps pods", "logs x", "dial unix:/run/x",
		"dns example.com", "dial example.com:80"} {
		f := strings.Fields(line)
		var out bytes.Buffer
		run := parsed(t, f[0], f[1:]...)
		wants(t, run(t.Context(), &probe.Job{Host: h, Out: &out}), probe.Skip, "not visible")
	}
}

// TestTable checks that foreign names cannot control the terminal.
func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := newTable(&probe.Job{Out: &out}, "NAME", "KIND")
	table.row("e\x1b[2J\x1b]0;x\a", "")
	table.end()
	if got := out.String(); got != "NAME         KIND\ne?[2J?]0;x?  -\n" {
		t.Errorf("%q", got)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "90s", time.Hour: "60m",
		47 * time.Hour: "47h", 49 * time.Hour: "2d", -1: "0s"} {
		if got := probe.Age(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for d, want := range map[time.Duration]string{123456: "123µs", 12345678: "12.3ms", 1234567890: "1.23s",
		12345678900: "12s"} {
		if got := short(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for part, want := range map[int]string{0: "0%", 1: "<0.1%", 10: "0.1%", 5000: "50%", 3333: "33.3%",
		9999: ">99.9%", 9990: "99.9%", 10000: "100%"} {
		if got := percent(part, 10000); got != want {
			t.Errorf("%d of 10000: %s", part, got)
		}
	}
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1536: "1.5K", 1 << 30: "1.0G", 200 << 20: "200M"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := unread(fs.ErrPermission); got.Status != probe.Unknown || got.Facts.Str(probe.FactReason) != "denied" {
		t.Errorf("%+v", got)
	}
}
