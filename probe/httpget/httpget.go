// Package httpget requests one page from a server near the node. Get returns the server's answer, if there is one. It
// does not verify the server's identity.
package httpget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// maxBody is the default limit on an answer's body.
const maxBody = 1 << 20

// Page is a server's answer.
type Page struct {
	Code   int
	Proto  string // "HTTP/1.1"
	Header http.Header
	Body   []byte // truncated at the limit set in the Way
}

// Way describes how to request a page. The zero value uses the network and reads up to 1 MiB.
type Options struct {
	Dial        func(context.Context) (net.Conn, error) // used instead of the network
	Host        string                                  // in the request, "" = the host in the address
	ServerName  string                                  // the SNI in TLS, "" = the host in the address
	Most        int64                                   // maximum number of bytes of the answer to read, 0 = 1 MiB
	Certificate func() tls.Certificate                  // called if a server requests one; an empty one is not sent
}

// ErrNotAccepted is in a request's error if the connection was not accepted, for example after a connect timeout.
var ErrNotAccepted = errors.New("no connection")

// Get requests url on a new connection. It does not use a proxy, follow redirects or verify certificates.
func Get(ctx context.Context, url string, opts Options) (Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Page{}, fmt.Errorf("requesting %s: %w", url, err)
	}
	if opts.Host != "" {
		req.Host = opts.Host
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: opts.ServerName} // no secret is sent
	if opts.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c := opts.Certificate()
			return &c, nil
		}
	}
	var d net.Dialer
	var taken atomic.Bool
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   config,
			DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
				if opts.Dial != nil {
					conn, err = opts.Dial(ctx)
				} else {
					conn, err = d.DialContext(ctx, network, addr)
				}
				taken.Store(err == nil)
				return conn, err
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil && !taken.Load() {
		return Page{}, fmt.Errorf("%w: requesting %s: %w", ErrNotAccepted, url, err)
	}
	if err != nil {
		return Page{}, fmt.Errorf("requesting %s: %w", url, err)
	}
	defer resp.Body.Close()
	most := opts.Most
	if most == 0 {
		most = maxBody
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // the status code has arrived: report it despite a cut body
		return Page{}, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return Page{resp.StatusCode, resp.Proto, resp.Header, body}, nil
}
