package tools

import (
	"bytes"
	"context"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
)

// use runs a tool on a made-up node, whose files are below root.
func use(ctx context.Context, t *testing.T, root string, tool *probe.Tool, args ...string) (probe.Result, string) {
	t.Helper()
	run, err := tool.Parse(args)
	if err != nil {
		t.Fatalf("%s %v: %v", tool.Name, args, err)
	}
	var out bytes.Buffer
	r := run(ctx, &probe.Job{Host: &probe.Host{Root: root, Proc: "/proc"}, Out: &out})
	return r, out.String()
}

// wants fails unless the result has the status and says all of saw.
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
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestTexts wants each tool told of in few words, and at length with an example.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, tool := range All() {
		if tool.Short == "" || len(tool.Short) > 60 || strings.HasSuffix(tool.Short, ".") || tool.Parse == nil {
			t.Errorf("%s: %q", tool.Name, tool.Short)
		}
		if !strings.Contains(tool.Doc, "\n  "+tool.Name) {
			t.Errorf("the text of %s has no example", tool.Name)
		}
		for line := range strings.Lines(tool.Doc) {
			if len(strings.TrimRight(line, "\n")) > 92 {
				t.Errorf("%s: a line of %d characters: %s", tool.Name, len(line), line)
			}
		}
		// What the examples say must be something the tool takes.
		for _, m := range regexp.MustCompile(`(?m)^  (`+tool.Name+`( .*)?)$`).FindAllStringSubmatch(tool.Doc, -1) {
			typed, err := prompt.Parse(m[1])
			if err != nil || len(typed) != 1 {
				t.Errorf("the example %q: %v", m[1], err)
				continue
			}
			if _, err := tool.Parse(typed[0].Words[1:]); err != nil {
				t.Errorf("the example %q: %v", m[1], err)
			}
		}
	}
}

// TestMistakes wants mistakes of typing told in one line, before anything is asked.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"ping": "takes one address", "ping a:b": "takes an address or a name",
		"ping -c x 10.0.0.1": "ping: invalid value", "ping -z 10.0.0.1": "no option -z",
		"ping -s 20 10.0.0.1": "-s takes 36 to 65535", "ping -s 50 fd00::1": "-s takes 56",
		"ping -i 1ms 10.0.0.1": "-i takes 10ms", "ping -W x 10.0.0.1": "a time is 5s or 200ms",
		"ping -h": "'help ping'", "ping 10.0.0.1 10.0.0.2": "takes one address",
		"dial": "takes one HOST:PORT", "dial 10.0.0.1": "takes HOST:PORT", "dial 10.0.0.1:0": "takes HOST:PORT",
		"dial fd00::1:80": "takes HOST:PORT", "dial a/b:80": "neither an address nor a name",
		"dial unix:run/x": "a path from the root", "dial --http / unix:/run/x": "a UNIX socket is dialled as it is",
		"dial -u --tls 10.0.0.1:1": "-u goes without", "dial --http x 10.0.0.1:1": "--http takes a path",
		"dns": "takes a name", "dns a b c": "takes a name", "dns a NOPE": "no type", "dns a AXFR": "no type",
		"dns a @b": "a server is an address", "dns -x b": "-x takes an address", "dns -x 10.0.0.1 a": "not both",
		"dns 10.0.0.1": "'dns -x 10.0.0.1'",
		"route get":    "takes an address", "route get x": "takes an address",
		"route get 10.0.0.1 from": "takes an address", "route get 10.0.0.1 from fd00::1": "same family",
		"route get 10.0.0.1 iif lo": "goes with from",
		"route show proto":          "of what?", "route proto nobody": "no protocol", "route table nobody": "no table",
		"route nonsense": "not \"nonsense\"", "route 10.0.0.0/8 10.0.0.0/8": "not",
		"links -a": "no options", "links a b": "one name", "conns x": "one port or address",
		"conns 1 2": "one port or address", "neigh dev": "takes an address, dev NAME",
		"neigh a b": "takes an address",
		"bird":      "takes show", "bird configure": "takes show", "bird disable all": "takes show",
		"bird show": "takes show", "ps a b": "one word", "ps -x": "no option -x",
		"logs": "takes one container", "logs -n -1 a": "-n takes 0 to 100000",
		"logs -f --previous a": "do not go together",
		"drops --trace":        "--trace takes a target", "drops --trace -n 5 10.0.0.1": "-n goes without",
		"drops a b": "takes one target", "drops -n 5 10.0.0.1": "-n goes without a target",
		"drops fe80::1": "no link-local address", "drops --trace [fe80::1%eth0]:80": "no link-local address",
		"drops -n x":   "a time is 5s",
		"drops -n 0.1": "-n takes 1s to 10m0s", "drops 10.0.0.1:0": "a port from 1 to 65535", "drops a b/c": "one target",
		"drops /web": "NAMESPACE/NAME of a pod", "drops a:b:c": "takes an address", "drops -z": "no option -z",
		"capture": "takes one HOST", "capture a b": "takes one HOST", "capture a:0": "takes HOST",
		"capture a/b": "neither an address nor a name", "capture -p gre a": "-p takes tcp, udp, sctp, icmp",
		"capture -p icmp a:1": "ICMP has no ports", "capture --seconds 301 a": "--seconds takes 1s to 5m0s",
		"capture --packets 0 a": "--packets takes 1 to 20000", "capture --own :80": "takes a HOST to send to",
		"capture --own -p tcp a": "leave out -p", "capture --mark x a": "a number in hexadecimal",
		"capture -i a/b c": "the name of an interface", "capture --payload a": "'calico-probe capture --payload'",
	} {
		f := strings.Fields(line)
		for _, tool := range All() {
			if tool.Name != f[0] {
				continue
			}
			_, err := tool.Parse(f[1:])
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %q", line, err, want)
			}
		}
	}
	if _, err := birdTool.Parse([]string{"show", "status\nconfigure"}); err == nil {
		t.Error("two commands pass for one")
	}
}

// TestShortOptions wants options written together taken apart, and nothing else.
func TestShortOptions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-c1 10.0.0.1":  "-c 1 10.0.0.1",
		"-c=1 10.0.0.1": "-c=1 10.0.0.1",
		"-c=10 x":       "-c=10 x",
		"-ft web":       "-f -t web",
		"-fc3 web":      "-f -c 3 web",
		"-fz web":       "-fz web",
		"--long -x":     "--long -x",
		"-long=a":       "-long=a",
		"web -- -c1":    "web -- -c1",
		"- -f":          "- -f",
	} {
		f := options("any")
		f.Int("c", 0, "")
		f.Bool("f", false, "")
		f.Bool("t", false, "")
		f.String("long", "", "")
		if got := strings.Join(separated(f, strings.Fields(line)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
	if _, err := Ping.Parse([]string{"-c1", "-W200ms", "10.0.0.1"}); err != nil {
		t.Error(err)
	}
}

// TestPingName wants a name looked up on the node: in its hosts file, or by its servers.
func TestPingName(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{"etc/hosts": "127.0.0.1 web.test\n", "etc/resolv.conf": "nameserver x\n"})
	r, _ := use(t.Context(), t, root, Ping, "-c1", "no.test")
	wants(t, r, probe.Fail, "names no server")
	if _, out := use(t.Context(), t, root, Ping, "-c1", "web.test"); !strings.Contains(out,
		"web.test is 127.0.0.1, by /etc/hosts") {
		t.Error(out)
	}
	ping, err := Ping.Parse([]string{"-c1", "web.test"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	known := map[string][]netip.Addr{"web.test": {netip.MustParseAddr("127.0.0.2")}}
	ping(t.Context(), &probe.Job{Host: &probe.Host{Root: root, Proc: "/proc"}, Out: &out, Hosts: known})
	if !strings.Contains(out.String(), "web.test is 127.0.0.2, by the API (the node's InternalIP)") {
		t.Errorf("a node's name: %s", out.String())
	}
}

// TestEndless wants those told that go on until they are stopped, and no others.
func TestEndless(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"ping 10.0.0.1": false, "ping 10.0.0.1 -c 0": true, "ping -c 0": false, "logs x": false, "logs x -f": true,
		"logs -f -p x": false,
	} {
		f := strings.Fields(line)
		for _, tool := range All() {
			if tool.Name == f[0] && tool.Endless(f[1:]) != want {
				t.Errorf("%q: endless should be %v", line, want)
			}
		}
	}
}

// TestNothingVisible wants an access method that shows nothing to be no fault of the node.
func TestNothingVisible(t *testing.T) {
	t.Parallel()
	h := &probe.Host{Root: t.TempDir(), Proc: "/proc", Only: []string{"/none"}}
	for _, line := range []string{"bird show status", "ps", "ps pods", "logs x", "dial unix:/run/x",
		"dns example.com", "dial example.com:80"} {
		f := strings.Fields(line)
		for _, tool := range All() {
			if tool.Name != f[0] {
				continue
			}
			run, err := tool.Parse(f[1:])
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			wants(t, run(t.Context(), &probe.Job{Host: h, Out: &out}), probe.Skip, "not visible")
		}
	}
}

// TestTable wants names that anybody may give kept from steering the terminal.
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
