package tools

import (
	"regexp"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/prompt"
)

// TestTexts checks that each tool has a short text, and a long one with an example.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, tool := range All() {
		if tool.Short == "" || len(tool.Short) > 60 || strings.HasSuffix(tool.Short, ".") || tool.Check == nil {
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
		// The tool must accept its own examples.
		for _, m := range regexp.MustCompile(`(?m)^  (`+tool.Name+`( .*)?)$`).FindAllStringSubmatch(tool.Doc, -1) {
			typed, err := prompt.Parse(m[1])
			if err != nil || len(typed) != 1 {
				t.Errorf("the example %q: %v", m[1], err)
				continue
			}
			if err := tool.Check(typed[0].Words[1:]); err != nil {
				t.Errorf("the example %q: %v", m[1], err)
			}
		}
	}
}

// TestMistakes checks that typing mistakes are reported in one line, before anything is sent.
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
		"dial unix:run/x": "a path from the root", "dial --http / unix:/run/x": "a UNIX socket takes no --http",
		"dial -u --tls 10.0.0.1:1": "-u excludes --tls", "dial --http x 10.0.0.1:1": "--http takes a path",
		"dns": "takes a name", "dns a b c": "takes a name", "dns a NOPE": "no type", "dns a AXFR": "no type",
		"dns a @b": "a server is an address", "dns -x b": "-x takes an address", "dns -x 10.0.0.1 a": "not both",
		"dns 10.0.0.1": "'dns -x 10.0.0.1'",
		"route get":    "takes an address", "route get x": "takes an address",
		"route get 10.0.0.1 from": "takes an address", "route get 10.0.0.1 from fd00::1": "same family",
		"route get 10.0.0.1 iif lo": "iif needs from",
		"route show proto":          "proto needs a value", "route proto nobody": "no protocol",
		"route table nobody": "no table",
		"route nonsense":     "not \"nonsense\"", "route 10.0.0.0/8 10.0.0.0/8": "not",
		"links -a": "no options", "links a b": "one name", "conns x": "one port or address",
		"conns 1 2": "one port or address", "neigh dev": "takes an address, dev NAME",
		"neigh a b": "takes an address",
		"bird":      "takes show", "bird configure": "takes show", "bird disable all": "takes show",
		"bird show": "takes show", "ps a b": "one word", "ps -x": "no option -x",
		"logs": "takes one container", "logs -n -1 a": "-n takes 0 to 100000",
		"logs -f --previous a": "exclude each other",
		"drops --trace":        "--trace takes a target", "drops --trace -n 5 10.0.0.1": "-n works only without a target",
		"drops a b": "takes one target", "drops -n 5 10.0.0.1": "-n works only without a target",
		"drops fe80::1": "no link-local address", "drops --trace [fe80::1%eth0]:80": "no link-local address",
		"drops -n x":   "a time is 5s",
		"drops -n 0.1": "-n takes 1s to 10m0s", "drops 10.0.0.1:0": "a port from 1 to 65535", "drops a b/c": "one target",
		"drops /web": "NAMESPACE/NAME of a pod", "drops a:b:c": "takes an address", "drops -z": "no option -z",
		"capture": "takes one HOST", "capture a b": "takes one HOST", "capture a:0": "takes HOST",
		"capture a/b": "neither an address nor a name", "capture -p gre a": "-p takes tcp, udp, sctp, icmp",
		"capture -p icmp a:1": "ICMP has no ports", "capture --seconds 301 a": "--seconds takes 1s to 5m0s",
		"capture --packets 0 a": "--packets takes 1 to 20000", "capture --own :80": "takes a HOST to send to",
		"capture --own -p tcp a": "leave out -p", "capture --mark x a": "a hexadecimal number",
		"capture --frames a": "no option --frames", "capture --frames --payload a": "no option --frames",
		"capture -i a/b c": "the name of an interface", "capture --payload a": "'calico-probe capture --payload'",
	} {
		f := strings.Fields(line)
		for _, tool := range All() {
			if tool.Name != f[0] {
				continue
			}
			err := tool.Check(f[1:])
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %q", line, err, want)
			}
		}
	}
	if err := BIRD.Check([]string{"show", "status\nconfigure"}); err == nil {
		t.Error("two commands pass for one")
	}
}

// TestShortOptions checks that joined options are split, and nothing else.
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
	if err := Ping.Check([]string{"-c1", "-W200ms", "10.0.0.1"}); err != nil {
		t.Error(err)
	}
}

// TestEndless checks which tools run until they are stopped.
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
