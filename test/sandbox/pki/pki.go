// Package pki is the sandbox's certificate authority. It writes each certificate as NAME.crt and NAME.key into one
// folder. They are valid for a year, and only the folder's owner can read them.
package pki

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
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Authority signs certificates with a key in memory.
type Authority struct {
	dir string
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

// New creates an authority, with its certificate in ca.crt in dir.
func New(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA: %w", err)
	}
	a := &Authority{dir: dir, key: key}
	a.ca, err = a.sign("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "calico-probe-sandbox"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, key)
	return a, err
}

// Identity is the subject of a certificate.
type Identity struct {
	File, Name, Group string
	Hosts             []string // names and addresses of a server
}

// Issue writes a certificate, for clients and servers, and its key.
func (a *Authority) Issue(id Identity) error {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: id.Name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if id.Group != "" {
		c.Subject.Organization = []string{id.Group}
	}
	for _, h := range id.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	_, err = a.sign(id.File, c, key)
	return err
}

// sign completes and signs a certificate, and writes it with its key.
func (a *Authority) sign(file string, c *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	parent := a.ca
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
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
		if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return x509.ParseCertificate(der)
}

// Kubeconfig writes a client configuration that embeds certificates from dir.
func Kubeconfig(dir, file, server, identity string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	config := &api.Config{
		CurrentContext: "sandbox",
		Contexts:       map[string]*api.Context{"sandbox": {Cluster: "sandbox", AuthInfo: identity}},
		Clusters:       map[string]*api.Cluster{"sandbox": {Server: server, CertificateAuthority: at("ca.crt")}},
		AuthInfos: map[string]*api.AuthInfo{
			identity: {ClientCertificate: at(identity + ".crt"), ClientKey: at(identity + ".key")},
		},
	}
	if err := api.FlattenConfig(config); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return clientcmd.WriteToFile(*config, file)
}
