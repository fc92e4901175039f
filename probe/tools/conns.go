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
	Name: "conns", Usage: "[-e] [PORT | ADDRESS]", Short: "listening TCP sockets, or connections",
	Doc: `Lists the listening TCP sockets of the node's own network namespace, each with its process.
Sockets in pods and UDP sockets are not included.

  -e        connections instead: established, opening, closing
  PORT      local or remote
  ADDRESS   local or remote. A listening socket on all addresses matches every address; one
            on 0.0.0.0 matches every IPv4 address

  conns
  conns 179
  conns -e 10.0.0.12

Fails when no socket matches.`,
	Check: check(ParseConns),
}

// ConnsArgs holds the arguments of conns.
type ConnsArgs struct {
	Connected bool       // list connections instead of listening sockets
	With      string     // the port or address as the user typed it, "" = all
	Port      uint16     // port at either end, if Addr is invalid
	Addr      netip.Addr // address at either end
}

// ParseConns parses the arguments of conns.
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
