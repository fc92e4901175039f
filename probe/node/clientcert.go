package node

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/probe"
)

// Reasons of ClientCertificate.
const (
	CertificateExpired = "expired"
	CertificateEarly   = "not-valid-yet"
)

// ClientCertificate evaluates the certificate that a daemon of the node presents to the API server, by the path of
// its kubeconfig. It returns false if no certificate is visible, because the daemon may use a token.
func ClientCertificate(h *probe.Host, kubeconfig string, now time.Time) (probe.Result, bool) {
	text, err := h.ReadFile(kubeconfig)
	if err != nil {
		return unreadable(err)
	}
	var access struct {
		Users []struct {
			User struct {
				File string `yaml:"client-certificate"`
				Data string `yaml:"client-certificate-data"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	if err := yaml.Unmarshal(text, &access); err != nil || len(access.Users) == 0 {
		return probe.Result{}, false
	}
	user := access.Users[0].User
	where := cmp.Or(user.File, kubeconfig)
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
	status, until := Lasts(c, now)
	r := probe.Found(status, "%s of %s %s", where, c.Subject.CommonName, until).
		With(probe.FactExpires, c.NotAfter.UTC().Format(time.RFC3339))
	switch {
	case status != probe.Fail:
	case now.Before(c.NotBefore):
		r = r.With(probe.FactReason, CertificateEarly)
	default:
		r = r.With(probe.FactReason, CertificateExpired)
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
