package tools

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Conns lists TCP sockets.
var Conns = &probe.Tool{
	Name: "conns", Usage: "[-e] [PORT | ADDRESS]", Short: "who listens on TCP, and who is connected",
	Doc: `Lists the TCP sockets that listen in the node's own network, and the process of each. Those
of pods are not among them, nor is UDP.

  -e        connections instead: established, opening, closing
  PORT      of either end
  ADDRESS   of either end; a socket that listens everywhere has every address, one of
            0.0.0.0 those of IPv4

  conns
  conns 179
  conns -e 10.0.0.12

Fails when there is none.`,
	Check: check(ParseConns),
}

// ConnsArgs are the arguments of conns.
type ConnsArgs struct {
	Connected bool       // connections, and not sockets that listen
	With      string     // the port or the address that was typed, "" = all
	Port      uint16     // of either end, if there is no Addr
	Addr      netip.Addr // of either end
}

// ParseConns reads the arguments of conns.
func ParseConns(args []string) (*ConnsArgs, error) {
	c := &ConnsArgs{}
	f := options("conns")
	f.BoolVar(&c.Connected, "e", false, "")
	rest, err := words(f, args)
	if err != nil || len(rest) == 0 {
		return c, err
	}
	port, bad := strconv.ParseUint(rest[0], 10, 16)
	a, err := netip.ParseAddr(rest[0])
	if len(rest) > 1 || bad != nil && err != nil {
		return c, fmt.Errorf("conns takes one port or address, not %q", strings.Join(rest, " "))
	}
	c.With, c.Port, c.Addr = rest[0], uint16(port), a.Unmap()
	return c, nil
}
