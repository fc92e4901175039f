package ask

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
	"github.com/calico-probe/calico-probe/probe/node"
)

// kubeletHealthCheck binds kubelet.KubeletHealth to the function that runs it.
var kubeletHealthCheck = answers.To(kubelet.KubeletHealth, kubeletHealth)

func kubeletHealth(ctx context.Context, p *probe.Pass) {
	k, err := node.ReadKubelet(p.Host)
	if err != nil {
		p.Report(probe.Failed(err))
		return
	}
	node.Each([]func(){
		func() {
			addr, on := k.Healthz()
			if !on {
				p.Report(probe.Found(probe.Skip, "the kubelet's configuration disables healthz").On("healthz"))
				return
			}
			p.Report(retractGuess(k, queryKubelet(ctx, "http", addr, http.StatusOK)).On("healthz"))
		},
		func() {
			addr := k.API()
			// The probe has no credentials, so a healthy kubelet answers 401 or 403.
			r := retractGuess(k, queryKubelet(ctx, "https", addr, http.StatusUnauthorized, http.StatusForbidden, http.StatusOK))
			if bound, err := netip.ParseAddr(k.Address); err == nil && bound.IsLoopback() {
				r = r.With(kubelet.FactBound, addr.String())
			}
			p.Report(r.On("api"))
		},
		func() {
			if r, ok := node.ClientCertificate(p.Host, k.Access, time.Now()); ok {
				p.Report(r.On(kubelet.TargetCertificate))
			}
		},
		func() {
			if r, ok := savedState(p.Host, k); ok {
				p.Report(r.On(kubelet.TargetState))
			}
		},
		func() {
			if r, ok := kubeletAuthority(ctx, p.Host, k); ok {
				p.Report(r.On(kubelet.TargetAuthority))
			}
		},
	}, func(f func()) { f() })
}

// retractGuess turns a refused connection into unknown if the address is only the kubelet's default.
func retractGuess(k node.Kubelet, r probe.Result) probe.Result {
	if !k.Seen() && r.Facts.Str(probe.FactReason) == "refused" {
		r.Status = probe.Unknown
		r.Saw += "; the kubelet's configuration is not visible here"
	}
	return r
}

func queryKubelet(ctx context.Context, scheme string, addr netip.AddrPort, good ...int) probe.Result {
	one, limit, cancel := node.Part(ctx, 3) // a healthy kubelet needs milliseconds
	defer cancel()
	answer, err := httpget.Get(one, fmt.Sprintf("%s://%s/healthz", scheme, addr), httpget.Options{})
	if r, cut := node.CutShort(ctx, err); err != nil && cut {
		return r
	}
	if err != nil {
		return node.NoAnswer(err, addr.String(), limit).With(probe.FactAddress, addr.String())
	}
	r := probe.Found(probe.Fail, "%d from %s: %.200s", answer.Code, addr, answer.Body)
	for _, code := range good {
		if answer.Code == code {
			r = probe.Found(probe.OK, "%d from %s", answer.Code, addr)
		}
	}
	return r.With(probe.FactAddress, addr.String()).With(probe.FactCode, answer.Code)
}
