package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// Bird asks the routing daemon. Every conversation is restricted, so that BIRD itself
// refuses to be changed.
var Bird = &probe.Tool{
	Name: "bird", Usage: "[-6] show WHAT...", Short: "ask BIRD (read-only)",
	Doc: `Sends a command to BIRD's control socket, after "restrict": BIRD itself then refuses
to be changed, and only what begins with "show" is sent at all. -6 asks the BIRD
for IPv6.

  bird show protocols
  bird show protocols all Mesh_10_0_0_2
  bird show route for 10.244.7.0/26
  bird show status`,
	Parse: parseBird,
}

// birdLimit bounds one answer: a full table of a hundred thousand routes takes seconds.
const birdLimit = 20 * time.Second

func parseBird(args []string) (probe.ToolFunc, error) {
	socket := "run/calico/bird.ctl"
	if len(args) > 0 && args[0] == "-6" {
		socket, args = "run/calico/bird6.ctl", args[1:]
	}
	if len(args) < 2 || args[0] != "show" {
		return nil, errors.New("bird takes show and what to show: bird show protocols")
	}
	command := strings.Join(args, " ")
	if strings.ContainsAny(command, "\r\n\x00") {
		return nil, errors.New("a command of BIRD's is one line")
	}
	return func(ctx context.Context, j *probe.Job) probe.Result { return askBird(ctx, j, socket, command) }, nil
}

func askBird(ctx context.Context, j *probe.Job, socket, command string) probe.Result {
	path, err := j.Host.Path(socket)
	if errors.Is(err, probe.ErrNotVisible) {
		return probe.Result{Status: probe.Skip, Saw: err.Error()}
	}
	if err != nil {
		return probe.Failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, birdLimit)
	defer cancel()
	conn, err := bird.Dial(ctx, path)
	if err != nil {
		return probe.Found(probe.Fail, "/%s: %v", socket, err).With(probe.FactReason, probe.Reason(err))
	}
	defer conn.Close()
	lines, err := conn.Ask(command)
	var refused *bird.RefusedError
	switch {
	case errors.As(err, &refused):
		return probe.Found(probe.Fail, "BIRD refuses: %v", err)
	case err != nil:
		return probe.Found(probe.Unknown, "/%s: %v", socket, err).With(probe.FactReason, probe.Reason(err))
	}
	for _, l := range slices.DeleteFunc(lines, func(l bird.Line) bool { return l.Code == 0 && l.Text == "" }) {
		j.Say("%s", l.Text)
	}
	return probe.Found(probe.OK, "%s", fmt.Sprintf("%d lines", len(lines)))
}
