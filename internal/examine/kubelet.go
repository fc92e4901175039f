package examine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/kubeletproxy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Kubelet returns a client that queries the node's kubelet through the API server. It sends the user's credentials only
// to the API server.
func (c *Client) Kubelet(node string) (*kubeletproxy.Kubelet, error) {
	config, err := c.Rest()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	own := *client
	// Do not follow redirects, because a node chooses their destination.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	return &kubeletproxy.Kubelet{Client: &own, URL: at.JoinPath("api/v1/nodes", node, "proxy").String()}, nil
}

// kubelet returns the access method that queries the node's kubelet and does not create anything on the node.
func (r *Run) kubelet() (injector.Method, error) {
	kubelet, err := r.client.Kubelet(r.Node)
	if err != nil {
		return injector.Method{}, err
	}
	open := func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
		ahead, err := kubelet.Greet(ctx)
		if err != nil {
			return nil, Ungreeted(err)
		}
		host := &probe.Host{Node: r.Node, Only: []string{}, Ahead: ahead}
		runner := &probe.Runner{Suite: kubelet.Checks(), Host: host, Version: probe.Release}
		return injector.InProcess(runner.Serve, "nothing was created")(ctx, opts)
	}
	return injector.Method{Name: injector.MethodKubelet, Open: open}, nil
}

// Ungreeted explains why a kubelet cannot be queried.
func Ungreeted(err error) *injector.PlacementError {
	text := probe.OneLine(err.Error())
	e, answered := errors.AsType[*kubeletproxy.KubeletError](err)
	var pe *injector.PlacementError
	switch {
	case !answered && errors.Is(err, context.DeadlineExceeded):
		pe = &injector.PlacementError{Reason: facts.ReasonSilent, Waited: true, Text: "the kubelet does not answer through the API server: " + text}
	case !answered:
		pe = &injector.PlacementError{Reason: facts.ReasonAPI, Text: "querying the kubelet through the API server: " + text}
	case e.ByAPI && e.Code == http.StatusForbidden:
		pe = &injector.PlacementError{Reason: facts.ReasonRBAC, Text: "no right to get nodes/proxy: apply the output of: calico-probe manifests --methods kubelet"}
	case e.ByAPI && (e.Code == http.StatusUnauthorized || e.Code == http.StatusTooManyRequests):
		pe = &injector.PlacementError{Reason: facts.ReasonAPI, Text: "the API server rejects the request: " + text}
	default:
		pe = injector.Unattached("the API server gets no answer from the kubelet: %s", text)
	}
	pe.Err = err
	return pe
}
