// Package streams opens the connections of attach and exec through the API server, and bounds what a node may send over
// them:
//
//	URL of an attach or exec --> Connect --> stdin, stdout, stderr, until either side ends
//
// Connect is its entry point. It does not reconnect or read events: package injector does both. client-go keeps the
// whole error stream in memory. Without the limit, a hostile node could fill the client's memory.
package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Connect connects stdin, stdout and stderr of an attach or exec until either side ends, or until the data besides
// stdout exceeds a budget. Like kubectl, it uses WebSocket, and falls back to SPDY for servers and proxies without
// WebSocket support. If the data exceeds the budget, the error is a probe.ErrTooMuch.
func Connect(ctx context.Context, config *rest.Config, at *url.URL, in io.Reader, out, errs io.Writer) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	b := &budget{end: end}
	counted := rest.CopyConfig(config)
	counted.WrapTransport = transport.Wrappers(b.webSocket, config.WrapTransport) // first: closest to the connection
	ws, err := remotecommand.NewWebSocketExecutor(counted, "GET", at.String())
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	by, upgrade, err := spdy.RoundTripperFor(config)
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	older, err := remotecommand.NewSPDYExecutorForTransports(briefly{by}, countedSPDY{upgrade, b}, "POST", at)
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	exec, err := remotecommand.NewFallbackExecutor(ws, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("opening the connection: %w", err)
	}
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: b.output(out), Stderr: errs})
	if why := context.Cause(ctx); errors.Is(why, errBeside) {
		return why
	}
	return err
}
