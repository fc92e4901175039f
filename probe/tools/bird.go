package tools

import (
	"errors"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// BIRD queries the routing daemon. Every session is restricted, so BIRD itself rejects changes.
var BIRD = &probe.Tool{
	Name: "bird", Usage: "[-6] show WHAT...", Short: "query BIRD (read-only)",
	Doc: `Sends a command to BIRD's control socket, after "restrict". From then on BIRD refuses every
change, and only commands that begin with "show" are sent. -6 selects the BIRD for IPv6.
The answer is printed as it arrives, up to 200000 lines.

  bird show protocols
  bird show protocols all Mesh_10_0_0_2
  bird show protocols "Mesh_*"
  bird show route for 10.244.7.9
  bird show route protocol Mesh_10_0_0_2 all
  bird -6 show status

Fails when BIRD rejects the command, or the named object does not exist.`,
	Check: check(ParseBIRD),
}

// BIRDArgs holds the arguments of bird.
type BIRDArgs struct {
	Socket  string // as seen on the node
	Command string
}

// ParseBIRD parses the arguments of bird.
func ParseBIRD(args []string) (*BIRDArgs, error) {
	a := &BIRDArgs{Socket: "/run/calico/bird.ctl"}
	if len(args) > 0 && args[0] == "-6" {
		a.Socket, args = "/run/calico/bird6.ctl", args[1:]
	}
	if len(args) < 2 || args[0] != "show" {
		return a, errors.New("bird takes show commands: bird show protocols")
	}
	a.Command = strings.Join(quoted(args), " ")
	if strings.ContainsFunc(a.Command, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return a, errors.New("a BIRD command is one line of text")
	}
	return a, nil
}

// quoted puts name patterns in quotation marks. BIRD requires them, but the prompt has removed them. Only protocols
// can be found by a pattern. Elsewhere, a star is a BIRD operator.
func quoted(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if i > 1 && out[1] == "protocols" && strings.ContainsAny(w, "*?") && !strings.Contains(w, `"`) {
			out[i] = `"` + w + `"`
		}
	}
	return out
}
