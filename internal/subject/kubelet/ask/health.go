package ask

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"time"

	"go.yaml.in/yaml/v3"

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
			if r, ok := kubeletCertificate(p.Host, k, time.Now()); ok {
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

// kubeletCertificate evaluates the certificate that the kubelet presents to the API server. It returns false if no
// certificate is visible, because the kubelet may use a token.
func kubeletCertificate(h *probe.Host, k node.Kubelet, now time.Time) (probe.Result, bool) {
	text, err := h.ReadFile(k.Access)
	if err != nil {
		return unreadable(err)
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
	where := cmp.Or(user.File, k.Access)
	text, err = base64.StdEncoding.DecodeString(user.Data)
	if user.File != "" {
		text, err = h.ReadFile(user.File)
	}
	if err != nil {
		return unreadable(err)
	}
	c := leafIn(text)
	if c == nil {
		return probe.Result{}, false
	}
	status, until := node.Lasts(c, now)
	r := probe.Found(status, "%s of %s %s", where, c.Subject.CommonName, until).
		With(probe.FactExpires, c.NotAfter.UTC().Format(time.RFC3339))
	if status == probe.Fail {
		r = r.With(probe.FactReason, kubelet.CertificateExpired)
	}
	return r, true
}

// unreadable returns a result for a certificate file that cannot be read. It returns false if the file does not
// exist, or if this probe cannot see it.
func unreadable(err error) (probe.Result, bool) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, probe.ErrNotVisible) || errors.Is(err, fs.ErrPermission) {
		return probe.Result{}, false
	}
	return probe.Failed(err), true
}

// leafIn returns the first certificate in a file, or nil if there is none. The file may also contain a key and a chain.
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
