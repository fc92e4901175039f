package tools

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Ping sends echo requests.
var Ping = &probe.Tool{
	Name: "ping", Usage: "[-c COUNT] [-i INTERVAL] [-s SIZE] [-W WAIT] ADDRESS | NAME",
	Short: "ping an address or a name, IPv4 or IPv6",
	Doc: `Sends one packet after another and prints a line for each: the round-trip time, or which
host sent an error and why. A summary follows at the end, also after Ctrl-C.

  -c COUNT     packets, 5 by default; 0 = until you stop it
  -i INTERVAL  between two packets, 200ms by default, 10ms at least
  -s SIZE      bytes of the whole IP packet with headers (ping(8) leaves out these 28 bytes,
               48 for IPv6). No router may fragment it: use it to find the path MTU
  -W WAIT      for each reply, 1s by default
  NAME         a node's name (its InternalIP from the API), or any other name that the
               node resolves with its own /etc/hosts and name servers

  ping 10.244.7.9
  ping worker-4
  ping -c1 kubernetes.default.svc.cluster.local
  ping -c 0 -i 1s fd00:10:244::9
  ping -s 1450 10.244.7.9

Fails when no reply arrives.`,
	Check:   check(ParsePing),
	Endless: func(args []string) bool { p, err := ParsePing(args); return err == nil && p.Count == 0 },
}

// PingArgs holds the arguments of ping.
type PingArgs struct {
	Host        string     // a name to resolve, "" = an address was given
	Addr        netip.Addr // invalid until the name is resolved
	Count       int        // 0 = send until the user stops it
	Size        int        // size of the whole packet, 0 = the usual size
	Every, Wait time.Duration
}

// ParsePing parses the arguments of ping.
func ParsePing(args []string) (*PingArgs, error) {
	p := &PingArgs{}
	f := options("ping")
	f.IntVar(&p.Count, "c", 5, "")
	f.IntVar(&p.Size, "s", 0, "")
	seconds(f, &p.Every, "i", 200*time.Millisecond)
	seconds(f, &p.Wait, "W", time.Second)
	rest, err := words(f, args)
	if err != nil {
		return p, err
	}
	if len(rest) != 1 {
		return p, errors.New("ping takes one address or name: ping 10.244.7.9")
	}
	if p.Addr, err = netip.ParseAddr(rest[0]); err != nil {
		if !isName(rest[0]) {
			return p, fmt.Errorf("ping takes an address or a name, not %q", rest[0])
		}
		p.Host = rest[0]
	}
	p.Addr = p.Addr.Unmap()
	if err := p.Fits(); err != nil {
		return p, err
	}
	if err := within("-c", p.Count, 0, 1_000_000); err != nil {
		return p, err
	}
	if err := within("-i", p.Every, 10*time.Millisecond, time.Hour); err != nil {
		return p, err
	}
	if err := within("-W", p.Wait, 10*time.Millisecond, time.Minute); err != nil {
		return p, err
	}
	return p, nil
}

// Fits rejects a size that is too small for the headers and for the eight bytes that identify a reply. If the
// target is a name, its address family is still unknown. Fits then applies the IPv4 minimum.
func (p PingArgs) Fits() error {
	least := 36
	if p.Addr.Is6() {
		least = 56
	}
	if p.Size == 0 {
		return nil
	}
	return within("-s", p.Size, least, math.MaxUint16)
}
