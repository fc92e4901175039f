package tools

import (
	"errors"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// PS lists containers, pods and images that the container runtime reports.
var PS = &probe.Tool{
	Name: "ps", Usage: "[-a] [pods | images] [WORD]", Short: "containers, pods and images of the node, by its runtime",
	Doc: `Queries the container runtime on its socket, as the kubelet does. Works without the API
server. Lists containers that run or wait, and those that exited with an error. A WORD
selects entries with that word in pod, name, image or ID.

  -a       also containers that exited with code 0, and earlier attempts
  pods     pod sandboxes, with their addresses
  images   the images on the node, and their size

  ps
  ps calico
  ps -a pods
  ps images coredns

RESTARTS is the attempt of the container, from 0. "exited ?" = the runtime did not report
the exit code in time.`,
	Check: check(ParsePS),
}

// PSArgs holds the arguments of ps.
type PSArgs struct {
	All  bool
	What string // "pods", "images", "" = containers
	Word string // "" = any
}

// ParsePS parses the arguments of ps.
func ParsePS(args []string) (*PSArgs, error) {
	p := &PSArgs{}
	f := options("ps")
	f.BoolVar(&p.All, "a", false, "")
	rest, err := words(f, args)
	if err != nil {
		return p, err
	}
	if len(rest) > 0 && (rest[0] == "pods" || rest[0] == "images") {
		p.What, rest = rest[0], rest[1:]
	}
	if len(rest) > 1 {
		return p, errors.New("ps takes pods or images, and one word to look for: ps pods calico")
	}
	p.Word = strings.Join(rest, "")
	return p, nil
}
