package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// birdTool asks the routing daemon. Every conversation is restricted, so that BIRD itself
// refuses to be changed.
var birdTool = &probe.Tool{
	Name: "bird", Usage: "[-6] show WHAT...", Short: "ask BIRD (read-only)",
	Doc: `Sends a command to BIRD's control socket, after "restrict": BIRD itself then refuses
to be changed, and only what begins with "show" is sent at all. -6 asks the BIRD
for IPv6. The answer is printed as it comes, up to 200000 lines.

  bird show protocols
  bird show protocols all Mesh_10_0_0_2
  bird show protocols "Mesh_*"
  bird show route for 10.244.7.9
  bird show route protocol Mesh_10_0_0_2 all
  bird -6 show status

Fails when BIRD does not take the command, or what it is about is not there.`,
	Parse: parseBird,
}

// How long an answer may take, and how many lines it may have: 100,000 routes take
// seconds on the node, and as many lines, but the way to the user may be slow.
const (
	birdLimit  = time.Minute
	mostOfBird = 200_000
)

// asking are the arguments of bird.
type asking struct {
	socket, command string
	limit           time.Duration
}

func parseBird(args []string) (probe.ToolFunc, error) {
	a := asking{socket: "/run/calico/bird.ctl", limit: birdLimit}
	if len(args) > 0 && args[0] == "-6" {
		a.socket, args = "/run/calico/bird6.ctl", args[1:]
	}
	if len(args) < 2 || args[0] != "show" {
		return nil, errors.New("bird takes show and what to show: bird show protocols")
	}
	a.command = strings.Join(quoted(args), " ")
	if strings.ContainsFunc(a.command, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, errors.New("a command of BIRD's is one line of text")
	}
	return a.run, nil
}

// quoted puts patterns of names into quotation marks, as BIRD takes them and the prompt has
// taken away. Only protocols are found by pattern; elsewhere a star is BIRD's operator.
func quoted(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if i > 1 && out[1] == "protocols" && strings.ContainsAny(w, "*?") && !strings.Contains(w, `"`) {
			out[i] = `"` + w + `"`
		}
	}
	return out
}

// errEnough ends an answer that is too long.
var errEnough = errors.New("enough")

func (a asking) run(ctx context.Context, j *probe.Job) probe.Result {
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	a.socket = strings.Replace(a.socket, probe.PlaceRun, j.Host.Place(probe.PlaceRun), 1)
	conn, err := node.DialBIRD(limited, j.Host, a.socket)
	if errors.Is(err, probe.ErrNotVisible) {
		return unread(err)
	}
	if err != nil {
		return a.silent(ctx, err)
	}
	defer conn.Close()
	many, flush := buffered(j)
	lines := 0
	err = conn.Each(a.command, func(l bird.Line) error {
		if l.Code == 0 && l.Text == "" { // the end of the answer
			return nil
		}
		if lines == mostOfBird {
			return errEnough
		}
		lines++
		many.Say("%s", l.Text)
		return nil
	})
	_ = flush() // a session that is gone ends the tool
	var refused *bird.RefusedError
	switch {
	case errors.Is(err, errEnough):
		j.Say("(more than %d lines, the rest is not shown: ask for less, like 'bird show route for ADDRESS')",
			mostOfBird)
		return probe.Found(probe.OK, "more than %d lines", mostOfBird)
	case errors.As(err, &refused):
		return probe.Found(probe.Fail, "BIRD answers: %s", refused.Line.Text)
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped after %s", several(lines, "line"))
	case limited.Err() != nil && lines > 0:
		return probe.Found(probe.Unknown, "the answer of BIRD did not end within %v: %s came", a.limit,
			several(lines, "line")).With(probe.FactReason, "timeout")
	case err != nil && lines > 0:
		return probe.Found(probe.Unknown, "the answer of BIRD breaks off after %s: %v", several(lines, "line"), err).
			With(probe.FactReason, probe.Reason(err))
	case err != nil:
		return a.silent(ctx, err)
	}
	return probe.Found(probe.OK, "%s", several(lines, "line"))
}

// silent judges a BIRD that did not answer.
func (a asking) silent(ctx context.Context, err error) probe.Result {
	reason := probe.Reason(err)
	var r probe.Result
	switch {
	case ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before BIRD answered")
	case reason == "missing":
		r = probe.Found(probe.Skip, "there is no %s: Calico runs without this BIRD here, or calico-node does not run",
			a.socket)
	case reason == "refused":
		r = probe.Found(probe.Fail, "%s is there and nobody listens: BIRD does not run", a.socket)
	case reason == "timeout":
		r = probe.Found(probe.Fail, "%s takes the connection, and BIRD does not answer within %v", a.socket, a.limit)
	default:
		r = probe.Found(probe.Unknown, "%s: %v", a.socket, err)
	}
	return r.With(probe.FactReason, reason)
}
