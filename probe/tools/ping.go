package tools

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// Ping sends echo requests.
var Ping = &probe.Tool{
	Name: "ping", Usage: "[-c ROUNDS] ADDRESS", Short: "ping an address from the node",
	Doc: `Sends five packets a round, a tenth of a second apart, and prints a line for each round,
until it is stopped or -c ROUNDS are over (1 unless told; 0 = until stopped).
Fails when the last round brought nothing back.`,
	Parse: parsePing,
}

func parsePing(args []string) (probe.ToolFunc, error) {
	rounds := 1
	if len(args) > 1 && args[0] == "-c" {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-c takes a number of rounds, not %q", args[1])
		}
		rounds, args = n, args[2:]
	}
	if len(args) != 1 {
		return nil, errors.New("ping takes one address: ping 10.244.7.9")
	}
	addr, err := netip.ParseAddr(args[0])
	if err != nil {
		return nil, fmt.Errorf("ping takes an address, not %q; 'dns %s' looks a name up", args[0], args[0])
	}
	return func(ctx context.Context, j *probe.Job) probe.Result { return ping(ctx, j, addr, rounds) }, nil
}

func ping(ctx context.Context, j *probe.Job, addr netip.Addr, rounds int) probe.Result {
	sent, received := 0, 0
	var last icmp.Stats
	for n := 0; (rounds == 0 || n < rounds) && ctx.Err() == nil; n++ {
		stats, err := icmp.Ping(ctx, []netip.Addr{addr})
		if err != nil {
			return probe.Failed(err)
		}
		last = stats[0]
		sent, received = sent+last.Sent, received+last.Received
		if last.Received > 0 {
			j.Say("%s: %d of %d answered, %v/%v/%v min/avg/max", addr, last.Received, last.Sent, last.Min.Round(time.Microsecond), last.Avg.Round(time.Microsecond), last.Max.Round(time.Microsecond))
		} else if !last.Cut {
			j.Say("%s: %d of %d answered %s%s", addr, last.Received, last.Sent, last.Refusal, last.Bounced)
		}
	}
	status := probe.OK
	if received == 0 || last.Received == 0 && !last.Cut {
		status = probe.Fail
	}
	return probe.Found(status, "%d of %d packets to %s came back", received, sent, addr)
}
