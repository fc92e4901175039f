package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Access lists the required credentials. A client needs all of those that are set. The files may change at any time.
type Access struct {
	TokenFile string // one token per line; "" = no tokens
	// ReadTokenFile has tokens that permit reading but not posting; "" = no such tokens. The file is from an optional
	// Secret, so it may be missing. An unusable file is logged and treated as empty, so alerts are still accepted.
	ReadTokenFile string
	ClientCA      string // the CA for accepted client certificates, PEM; "" = no client certificates
	Cert, Key     string // the server's certificate and key, PEM; "" = no TLS
}

// minToken is the minimum length of a token. Shorter tokens can be guessed.
const minToken = 16

// Keeper admits clients that have the credentials in Access. It also follows changes to Access's files.
type Keeper struct {
	Access
	log     *slog.Logger
	reading sync.Mutex // of tokens and CAs
	said    string     // the last log message about ReadTokenFile; guarded by reading
	mu      sync.Mutex
	tls     *tls.Config // the configuration from the files in the state asOf
	asOf    string      // the state of the files when they were read

	refused   refusals // requests without credentials
	unchecked refusals // requests whose credentials could not be checked
	crowded   refusals // connections that were closed for newer ones
}

// Open returns a Keeper. It rejects an Access that would admit every client, and unusable files.
func Open(from Access, log *slog.Logger) (*Keeper, error) {
	a := &Keeper{Access: from, log: log}
	switch {
	case from.TokenFile == "" && from.ClientCA == "":
		return nil, errors.New("no authentication is configured: set a token file or a CA for client certificates")
	case from.ReadTokenFile != "" && from.TokenFile == "":
		return nil, errors.New("read-only tokens need tokens that also allow posting: set a file with such tokens")
	case (from.Cert == "") != (from.Key == ""):
		return nil, errors.New("a certificate and its key belong together: set both, or neither")
	case from.ClientCA != "" && from.Cert == "":
		return nil, errors.New("client certificates need TLS: set a server certificate and its key")
	}
	if from.TokenFile != "" {
		tokens, err := a.tokens(from.TokenFile)
		switch {
		case err != nil:
			return nil, err
		case len(tokens) == 0:
			return nil, fmt.Errorf("%s has no token", from.TokenFile)
		}
		a.readers(tokens)
	}
	if from.Cert != "" {
		if _, err := a.current(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// tokens reads the token file at each request. The file is small, and a removed token must stop working immediately.
func (a *Keeper) tokens(name string) ([][]byte, error) {
	a.reading.Lock() // concurrent requests then use a single file descriptor
	defer a.reading.Unlock()
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	var out [][]byte
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(line) < minToken {
			return nil, fmt.Errorf("%s has a token of %d characters; at least %d are needed", name, len(line), minToken)
		}
		out = append(out, line)
	}
	return out, nil
}

// readers returns the tokens that permit only reading. posting has the tokens that also permit posting. A problem with
// the file is logged once, until the problem changes.
func (a *Keeper) readers(posting [][]byte) [][]byte {
	if a.ReadTokenFile == "" {
		return nil
	}
	tokens, err := a.tokens(a.ReadTokenFile)
	both := slices.ContainsFunc(tokens, func(token []byte) bool {
		return slices.ContainsFunc(posting, func(other []byte) bool { return bytes.Equal(token, other) })
	})
	says, level := "", slog.LevelError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		says, level = "no read-only token until this file exists", slog.LevelInfo
	case err != nil:
		says = "no read-only token until this file is usable: " + err.Error()
	case len(tokens) == 0:
		says = "no read-only token: this file has none"
	case both:
		says = "a token of this file also allows posting, because --token-file has the same token"
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	if says != a.said && says != "" {
		a.log.Log(context.Background(), level, says, "file", a.ReadTokenFile)
	}
	a.said = says
	return tokens
}

// clients reads the clients' CA. Like the tokens, it is read at each request.
func (a *Keeper) clients() (*x509.CertPool, error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	b, err := os.ReadFile(a.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("reading the CA of clients: %s has no certificate", a.ClientCA)
	}
	return pool, nil
}

// errCredentials is the whole error message for a client without credentials.
var errCredentials = errors.New("credentials required")

// Admits returns errCredentials if the request lacks the required credentials, and another error if they cannot be
// checked.
func (a *Keeper) Admits(r *http.Request, now time.Time) error {
	if a.ClientCA != "" {
		if err := a.signed(r.TLS, now); err != nil {
			return err
		}
	}
	if a.TokenFile == "" {
		return nil
	}
	given := ""
	if kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "bearer") {
		given = strings.TrimSpace(token)
	} else if _, password, ok := r.BasicAuth(); ok { // from a browser, with any user name
		given = password
	}
	tokens, err := a.tokens(a.TokenFile)
	if err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		tokens = append(tokens, a.readers(tokens)...)
	}
	// All hashes have the same length, and every token is compared, so the timing does not reveal anything.
	sum, same := sha256.Sum256([]byte(given)), 0
	for _, token := range tokens {
		other := sha256.Sum256(token)
		same |= subtle.ConstantTimeCompare(sum[:], other[:])
	}
	if same != 1 {
		return errCredentials
	}
	return nil
}

// signed requires a certificate from the current CA, because the connection may be older than the CA file.
func (a *Keeper) signed(by *tls.ConnectionState, now time.Time) error {
	pool, err := a.clients()
	if err != nil {
		return err
	}
	if by == nil || len(by.PeerCertificates) == 0 {
		return errCredentials
	}
	between := x509.NewCertPool()
	for _, c := range by.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err = by.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return errCredentials
	}
	return nil
}

// config returns a server's TLS configuration. Each connection uses the current state of the files.
func (a *Keeper) config() *tls.Config {
	if a.Cert == "" {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return a.current()
	}}
}

// current rereads changed files. If they are unusable, it continues to use the earlier content.
func (a *Keeper) current() (*tls.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.stamp()
	if a.tls != nil && now == a.asOf {
		return a.tls, nil
	}
	read, err := a.load()
	switch {
	case err != nil && a.tls == nil:
		return nil, err
	case err != nil:
		a.log.Error("the certificates on disk are unusable: the server keeps the loaded ones", "error", err.Error())
	default:
		a.tls = read
	}
	a.asOf = now
	return a.tls, nil
}

// stamp returns a value that changes when a file changes.
func (a *Keeper) stamp() string {
	var out strings.Builder
	for _, name := range []string{a.Cert, a.Key, a.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&out, "%s %d;", info.ModTime().Format(time.RFC3339Nano), info.Size())
		}
	}
	return out.String()
}

func (a *Keeper) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if a.ClientCA != "" {
		if out.ClientCAs, err = a.clients(); err != nil {
			return nil, err
		}
		// Each request is checked against the CA, so a changed CA also applies to old connections.
		out.ClientAuth = tls.RequestClientCert
	}
	return out, nil
}
