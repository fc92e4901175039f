package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// maxBody bounds what is read of any HTTP answer.
const maxBody = 1 << 20

// page is what a server answered.
type page struct {
	code int
	body []byte // at most 1 MiB
}

// get asks a server on the node for a page, without proxies, redirects or a
// check of certificates: what is asked is whether it answers. A socket, when not
// empty, is the path of a UNIX socket to ask on.
func get(ctx context.Context, url, socket string) (page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return page{}, fmt.Errorf("asking %s: %w", url, err)
	}
	var d net.Dialer
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // no secret is sent
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if socket != "" {
				network, addr = "unix", socket
			}
			return d.DialContext(ctx, network, addr)
		},
	}
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return page{}, fmt.Errorf("asking %s: %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return page{}, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return page{resp.StatusCode, body}, nil
}
