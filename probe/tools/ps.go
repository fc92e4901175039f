package tools

import (
	"errors"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// PS lists what the container runtime has.
var PS = &probe.Tool{
	Name: "ps", Usage: "[-a] [pods | images] [WORD]", Short: "containers, pods and images of the node, by its runtime",
	Doc: `Asks the container runtime on its socket, as the kubelet does: works while the API server
is away. Lists the containers that run or wait, and those that ended with an error; a
WORD leaves those whose pod, name, image or ID has it in it.

  -a       also those that ended well, and earlier attempts
  pods     the pods' sandboxes, with their addresses
  images   the images that are here, and how big they are

  ps
  ps calico
  ps -a pods
  ps images coredns

RESTARTS is which attempt of the container it is, from 0. "exited ?" = how it ended the
runtime did not tell in time.`,
	Check: check(ParsePS),
}

// PSArgs are the arguments of ps.
type PSArgs struct {
	All  bool
	What string // "pods", "images", "" = containers
	Word string // "" = any
}

// ParsePS reads the arguments of ps.
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
