package alerts

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Access says who may post alerts and read reports: whoever has what is asked for here,
// all of it. The files may change at any time.
type Access struct {
	TokenFile string // one token a line; "" = none is asked for
	ClientCA  string // whose certificates are accepted, PEM; "" = none is asked for
	Cert, Key string // of the server, PEM; "" = no TLS
}

// shortestToken keeps out what can be guessed.
const shortestToken = 16

// access is Access with the files as they are now.
type access struct {
	Access
	log  *slog.Logger
	mu   sync.Mutex
	tls  *tls.Config // as of
	asOf string      // what the files were then
}

// openAccess refuses what would let everybody in, and files that cannot be used.
func openAccess(from Access, log *slog.Logger) (*access, error) {
	a := &access{Access: from, log: log}
	switch {
	case from.TokenFile == "" && from.ClientCA == "":
		return nil, errors.New("nobody is kept from starting runs: name a file of tokens, or a CA of client certificates")
	case (from.Cert == "") != (from.Key == ""):
		return nil, errors.New("a certificate and its key belong together: name both, or none")
	case from.ClientCA != "" && from.Cert == "":
		return nil, errors.New("client certificates take TLS: name a certificate and its key too")
	}
	if from.TokenFile != "" {
		tokens, err := a.tokens()
		if err != nil {
			return nil, err
		}
		if len(tokens) == 0 {
			return nil, fmt.Errorf("%s has no token", from.TokenFile)
		}
	}
	if from.Cert != "" {
		if _, err := a.current(); err != nil {
			return nil, err
		}
	} else {
		log.Warn("without TLS tokens can be read on their way: let a network policy or a mesh see to that, or name a certificate")
	}
	return a, nil
}

// tokens reads them anew each time: it is a small file, and what was taken out of it is
// not to be accepted a second longer.
func (a *access) tokens() ([][]byte, error) {
	b, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	var out [][]byte
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(line) < shortestToken {
			return nil, fmt.Errorf("%s has a token of %d letters: %d are the fewest", a.TokenFile, len(line), shortestToken)
		}
		out = append(out, line)
	}
	return out, nil
}

// errCredentials is all that somebody without is told.
var errCredentials = errors.New("credentials are wanted")

// admits returns errCredentials where the request has not what is asked for; another
// error where that cannot be told.
func (a *access) admits(r *http.Request) error {
	if a.ClientCA != "" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return errCredentials
	}
	if a.TokenFile == "" {
		return nil
	}
	given := ""
	if kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "bearer") {
		given = strings.TrimSpace(token)
	} else if _, password, ok := r.BasicAuth(); ok { // of a browser, whatever the user's name
		given = password
	}
	tokens, err := a.tokens()
	if err != nil {
		return err
	}
	// Sums are of one length, and every token is compared: how long it takes tells nothing.
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

// config is for a server: each connection gets what the files are then.
func (a *access) config() *tls.Config {
	if a.Cert == "" {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return a.current()
	}}
}

// current reads the files if they have changed; where they cannot be used, what was read
// before goes on.
func (a *access) current() (*tls.Config, error) {
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
		a.log.Error("the certificates on disk cannot be used: those read before go on", "error", err.Error())
	default:
		a.tls = read
	}
	a.asOf = now
	return a.tls, nil
}

// stamp differs when the files do.
func (a *access) stamp() string {
	var out strings.Builder
	for _, name := range []string{a.Cert, a.Key, a.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&out, "%s %d;", info.ModTime().Format(time.RFC3339Nano), info.Size())
		}
	}
	return out.String()
}

func (a *access) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if a.ClientCA != "" {
		b, err := os.ReadFile(a.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of clients: %w", err)
		}
		out.ClientCAs = x509.NewCertPool()
		if !out.ClientCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("reading the CA of clients: %s has no certificate", a.ClientCA)
		}
		// A kubelet that asks whether this lives has none.
		out.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return out, nil
}
