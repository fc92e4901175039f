// Package httpget requests one page from a server near the node. Get returns whether and what the server answers. It
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

// maxBody bounds what is read of an answer unless it is said otherwise.
const maxBody = 1 << 20

// Page is what a server answered.
type Page struct {
	Code   int
	Proto  string // "HTTP/1.1"
	Header http.Header
	Body   []byte // cut where the way says
}

// Way is how a server is asked. The zero value is the network, 1 MiB.
type Way struct {
	Dial        func(context.Context) (net.Conn, error) // instead of the network
	Host        string                                  // in the request, "" = as in the address
	ServerName  string                                  // asked for in TLS, "" = as in the address
	Most        int64                                   // bytes that are read of the answer, 0 = 1 MiB
	Certificate func() tls.Certificate                  // called when a server asks for one; an empty one is not shown
}

// ErrNotTaken is in the error of a question for which nobody took the connection: what
// ran out then is the time to connect.
var ErrNotTaken = errors.New("no connection")

// Get asks url for a page, and nowhere else: without proxies, redirects or a
// check of certificates, on a connection of its own.
func Get(ctx context.Context, url string, way Way) (Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Page{}, fmt.Errorf("asking %s: %w", url, err)
	}
	if way.Host != "" {
		req.Host = way.Host
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: way.ServerName} // no secret is sent
	if way.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c := way.Certificate()
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
				if way.Dial != nil {
					conn, err = way.Dial(ctx)
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
		return Page{}, fmt.Errorf("%w: asking %s: %w", ErrNotTaken, url, err)
	}
	if err != nil {
		return Page{}, fmt.Errorf("asking %s: %w", url, err)
	}
	defer resp.Body.Close()
	most := way.Most
	if most == 0 {
		most = maxBody
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // the code has arrived: a cut body is no reason to lose it
		return Page{}, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return Page{resp.StatusCode, resp.Proto, resp.Header, body}, nil
}
