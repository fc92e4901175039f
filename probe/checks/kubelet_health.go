package checks

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/httpget"
)

// KubeletHealth asks the kubelet itself, on the two ports it has: the API only
// knows that it stopped reporting, forty seconds later.
var KubeletHealth = &probe.Check{
	ID: probe.CheckKubeletHealth, Asks: "does the kubelet answer on its own ports?", From: probe.FromNode,
	Tags:   []string{tagRuntime},
	Access: []string{"host network", "proc", "var/lib/kubelet", "etc/kubernetes/kubelet.conf"}, Run: kubeletHealth,
	Doc: `The kubelet answers 127.0.0.1:10248/healthz to anybody, and the API server on 10250.
ok: healthz says ok; port 10250 completes a TLS handshake and asks for credentials.
fail, refused: the kubelet is not running, or is between two starts; look at its log for the reason it ends. fail, no answer: it is frozen, or waits for the container runtime. fail, 500: one of its own checks fails, and it names which.
skip: healthz is turned off in the kubelet's configuration. unknown: a file with its settings cannot be read, or more than one process may be the kubelet: one of root's with that name, in the node's network and in no pod.
client certificate, where the kubeconfig of the kubelet is visible and names one: with which the kubelet goes to the API server. ok: still good. warn: it expires within two weeks and has not been renewed. fail: it has expired, so the API server rejects the kubelet. Of the file that holds key and certificate only the certificate is looked at.
saved state, where the kubelet has saved what its CPU or memory manager gave to pods: fail: that is of another policy than the configuration's, and no kubelet runs: it ends at every start for it. warn: a kubelet runs, and will end so when it next starts.
API server, where that kubeconfig names one and its CA: whether the kubelet would accept the certificate that the server shows. ok: it is of that CA. fail: it is of another (the cluster's CA was changed, or the file is another cluster's), not for that name or address, or expired by this node's clock. Nothing is sent but a TLS handshake; where none comes about nothing is said: datastore-latency asks for that.
container runtime, with --via kubelet alone: warn: the kubelet answers, but not within 5 s where it has to ask its runtime for it. stats, with --via kubelet alone: info: the kubelet answers 500 to what it uses, and says why: where its own metrics tell, memory and disks are judged by those.`,
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
			p.Report(guess(k, askKubelet(ctx, "https", addr, http.StatusUnauthorized, http.StatusForbidden,
				http.StatusOK)).On("api"))
		},
		func() {
			if r, ok := kubeletCertificate(p.Host, k, time.Now()); ok {
				p.Report(r.On(TargetCertificate))
			}
		},
		func() {
			if r, ok := savedState(p.Host, k); ok {
				p.Report(r.On(TargetState))
			}
		},
		func() {
			if r, ok := kubeletAuthority(ctx, p.Host, k); ok {
				p.Report(r.On(TargetAuthority))
			}
		},
	}, func(f func()) { f() })
}

// kubeletCertificate judges the certificate with which the kubelet goes to the API
// server; false where none is visible: the kubelet may use a token.
func kubeletCertificate(h *probe.Host, k kubelet, now time.Time) (probe.Result, bool) {
	text, err := h.ReadFile(k.access)
	if err != nil {
		return notRead(err)
	}
	var kubeconfig struct {
		Users []struct {
			User struct {
				File string `yaml:"client-certificate"`
				Data string `yaml:"client-certificate-data"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	if err := yaml.Unmarshal(text, &kubeconfig); err != nil || len(kubeconfig.Users) == 0 {
		return probe.Result{}, false
	}
	user := kubeconfig.Users[0].User
	where := cmp.Or(user.File, k.access)
	text, err = base64.StdEncoding.DecodeString(user.Data)
	if user.File != "" {
		text, err = h.ReadFile(user.File)
	}
	if err != nil {
		return notRead(err)
	}
	c := leafIn(text)
	if c == nil {
		return probe.Result{}, false
	}
	status, until := lasts(c, now)
	r := probe.Found(status, "%s of %s %s", where, c.Subject.CommonName, until).
		With(FactExpires, c.NotAfter.UTC().Format(time.RFC3339))
	if status == probe.Fail {
		r = r.With(probe.FactReason, CertificateExpired)
	}
	return r, true
}

// notRead is the result about a certificate whose file cannot be read; false where there
// is none, or this probe may not see it.
func notRead(err error) (probe.Result, bool) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, probe.ErrNotVisible) || errors.Is(err, fs.ErrPermission) {
		return probe.Result{}, false
	}
	return probe.Failed(err), true
}

// leafIn is the first certificate of a file that may hold a key and a chain too, nil
// without one.
func leafIn(text []byte) *x509.Certificate {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil
			}
			return c
		}
	}
	return nil
}

// TargetRuntime is what the result is about for which a kubelet that is asked itself has to ask its container runtime.
const TargetRuntime = "container runtime"

// TargetCertificate is what the result about the kubelet's certificate is about.
const TargetCertificate = "client certificate"

// CertificateExpired is the reason of a certificate that has run out.
const CertificateExpired = "expired"

// guess takes back a refusal where only the kubelet's defaults say where to ask.
func guess(k kubelet, r probe.Result) probe.Result {
	if !k.seen() && r.Facts.Str(probe.FactReason) == "refused" {
		r.Status = probe.Unknown
		r.Saw += "; the kubelet's configuration is not visible here"
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
		r = probe.Found(probe.Fail, "%s accepted the connection and closed it without an answer", who)
	case "host-unreachable", "net-unreachable", "no-address":
		r = probe.Found(probe.Fail, "%s cannot be reached: %s", who, refusals[reason])
	default:
		r = probe.Failed(err)
	}
	return r.With(probe.FactReason, reason)
}
