package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// KubeletHealth asks the kubelet itself, on the two ports it has: the API only
// knows that it stopped reporting, forty seconds later.
var KubeletHealth = &probe.Check{
	ID: "kubelet-health", Asks: "does the kubelet answer on its own ports?", From: probe.FromNode,
	Tags: []string{tagRuntime}, Access: []string{"host network", "proc", "var/lib/kubelet/config.yaml"}, Run: kubeletHealth,
	Doc: `The kubelet answers 127.0.0.1:10248/healthz to anybody, and the API server on 10250.
ok: healthz says ok; port 10250 completes a TLS handshake and asks for credentials.
fail, refused: the kubelet is not running, or is between two starts; look at its log for the reason it ends. fail, no answer: it is frozen, or waits for the container runtime. fail, 500: one of its own checks fails, and it names which.
skip: healthz is turned off in the kubelet's configuration.`,
}

func kubeletHealth(ctx context.Context, p *probe.Pass) {
	k, err := readKubelet(p.Host)
	if err != nil {
		p.Report(probe.Failed(err))
		return
	}
	each([]func(){
		func() {
			addr, on := k.healthz()
			if !on {
				p.Report(probe.Found(probe.Skip, "the kubelet's configuration turns healthz off").On("healthz"))
				return
			}
			p.Report(guess(k, askKubelet(ctx, "http", addr, http.StatusOK)).On("healthz"))
		},
		func() {
			addr := k.api()
			// Without credentials the good answer is a refusal.
			p.Report(guess(k, askKubelet(ctx, "https", addr, http.StatusUnauthorized, http.StatusForbidden, http.StatusOK)).On("api"))
		},
	}, func(f func()) { f() })
}

// guess takes back a refusal where only the kubelet's defaults say where to ask.
func guess(k kubelet, r probe.Result) probe.Result {
	if !k.seen() && r.Facts.Str(probe.FactReason) == "refused" {
		r.Status = probe.Unknown
		r.Saw += "; how the kubelet is set is not visible here"
	}
	return r
}

func askKubelet(ctx context.Context, scheme string, addr netip.AddrPort, good ...int) probe.Result {
	one, limit, cancel := part(ctx, 3) // a healthy kubelet needs milliseconds
	defer cancel()
	answer, err := httpget.Get(one, fmt.Sprintf("%s://%s/healthz", scheme, addr), httpget.Way{})
	if r, cut := cutShort(ctx, err); err != nil && cut {
		return r
	}
	if err != nil {
		return noAnswer(err, addr.String(), limit).With(FactAddress, addr.String())
	}
	r := probe.Found(probe.Fail, "%d from %s: %.200s", answer.Code, addr, answer.Body)
	for _, code := range good {
		if answer.Code == code {
			r = probe.Found(probe.OK, "%d from %s", answer.Code, addr)
		}
	}
	return r.With(FactAddress, addr.String()).With(FactCode, answer.Code)
}

// FactTaken is false where not even the connection was taken within the time: the
// kernel takes it for a daemon that is frozen, so packets get lost, or the daemon has
// been frozen for long.
const FactTaken probe.Fact = "taken"

// noAnswer judges an error of asking a daemon of this node that should be there:
// what the connection did is what was seen.
func noAnswer(err error, who string, limit time.Duration) probe.Result {
	reason := probe.Reason(err)
	var r probe.Result
	var op *net.OpError
	switch reason {
	case "denied":
		r = probe.Failed(err)
		if errors.As(err, &op) && op.Net != "unix" { // of packets, not of a file
			r = probe.Found(probe.Fail, "%s cannot be reached: %s", who, refusals[reason])
		}
	case "refused":
		r = probe.Found(probe.Fail, "connection to %s refused: nothing listens there", who)
	case "timeout":
		r = probe.Found(probe.Fail, "no answer from %s within %v", who, limit)
		if errors.Is(err, httpget.ErrNotTaken) {
			r = r.With(FactTaken, false)
		}
	case "reset", "closed":
		r = probe.Found(probe.Fail, "%s took the connection and closed it without an answer", who)
	case "host-unreachable", "net-unreachable", "no-address":
		r = probe.Found(probe.Fail, "%s cannot be reached: %s", who, refusals[reason])
	default:
		r = probe.Failed(err)
	}
	return r.With(probe.FactReason, reason)
}
