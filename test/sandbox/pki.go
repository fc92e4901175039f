package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// pki is the cluster's certificate authority; what it signs lies in the state
// folder as NAME.crt and NAME.key.
type pki struct {
	layout layout
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
}

func makePKI(l layout) (*pki, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA: %w", err)
	}
	p := &pki{layout: l, key: key}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "calico-probe-sandbox"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if p.ca, err = p.sign("ca", ca, key); err != nil {
		return nil, err
	}
	type identity struct {
		file, name, org string
		hosts           []string
	}
	all := []identity{
		{"apiserver", "kube-apiserver", "", []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"127.0.0.1", fabric4, fabric6, "10.96.0.1",
		}},
		{"apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters", nil},
		{"admin", "sandbox-admin", "system:masters", nil},
		{"controller-manager", "system:kube-controller-manager", "", nil},
		{"scheduler", "system:kube-scheduler", "", nil},
		{"kube-proxy", "system:kube-proxy", "", nil},
		{"service-accounts", "service-accounts", "", nil},
	}
	for _, m := range members() {
		all = append(all, identity{m.Name, "system:node:" + m.Name, "system:nodes",
			[]string{m.Name, m.IP4.String(), m.IP6.String()}})
	}
	for _, id := range all {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: id.name}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
		if id.org != "" {
			c.Subject.Organization = []string{id.org}
		}
		for _, h := range id.hosts {
			if ip := net.ParseIP(h); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, h)
			}
		}
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		if _, err := p.sign(id.file, c, k); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// sign completes a certificate, signs it and writes it with its key.
func (p *pki) sign(file string, c *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	parent := p.ca
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, p.key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", file, err)
	}
	for name, block := range map[string]*pem.Block{
		file + ".crt": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(p.layout.state("pki", name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return x509.ParseCertificate(der)
}

// writeKubeconfig writes a client configuration with everything in it.
func (p *pki) writeKubeconfig(file, server, identity string) error {
	data := func(name string) (string, error) {
		b, err := os.ReadFile(p.layout.state("pki", name))
		return base64Of(b), err
	}
	ca, err := data("ca.crt")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	crt, err := data(identity + ".crt")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	key, err := data(identity + ".key")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: sandbox
contexts: [{name: sandbox, context: {cluster: sandbox, user: %[2]s}}]
clusters: [{name: sandbox, cluster: {server: "%[1]s", certificate-authority-data: %[3]s}}]
users: [{name: %[2]s, user: {client-certificate-data: %[4]s, client-key-data: %[5]s}}]
`, server, identity, ca, crt, key)
	return writeFile(file, text)
}
