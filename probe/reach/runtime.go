package reach

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/criconn"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Runtime finds the socket on which the kubelet's runtime answers. It is used if no plan names the runtime.
// It returns a connection that opens at the first call.
func Runtime(h *probe.Host) (conn *grpc.ClientConn, socket string, err error) {
	socket, err = node.FindSocket(h, node.CRISockets(&probe.Pass{Host: h}))
	if err != nil {
		return nil, "", err
	}
	conn, err = criconn.RuntimeConn(h, socket)
	return conn, socket, err
}

// RuntimeSilent evaluates the error of a call to a runtime that had a time limit.
func RuntimeSilent(ctx context.Context, err error, what string, limit time.Duration) probe.Result {
	if r, cut := node.CutShort(ctx, err); cut {
		return r
	}
	return Unanswering(err, what, limit)
}

// Dialable connects to a socket and closes the connection. If that fails, the result explains why.
func Dialable(ctx context.Context, h *probe.Host, name string) (probe.Result, bool) {
	one, limit, cancel := node.Part(ctx, 2)
	defer cancel()
	c, err := h.Dial(one, name)
	if err == nil {
		err = c.Close()
	}
	if err == nil {
		return probe.Result{}, true
	}
	if r, cut := node.CutShort(ctx, err); cut {
		return r, false
	}
	if probe.Reason(err) == "refused" {
		return probe.Found(probe.Fail, "the socket exists but nothing listens: the daemon is dead or restarting").
			With(probe.FactReason, "refused"), false
	}
	return Unanswering(err, "the socket", limit), false
}

// CallEach makes the calls concurrently. Each call gets two fifths of the check's time. It reports every result
// under the prefix and the name of the call.
func CallEach(ctx context.Context, p *probe.Pass, socket, prefix string, questions []node.Question) {
	node.Each(questions, func(q node.Question) {
		one, limit, cancel := node.Part(ctx, 2)
		defer cancel()
		r, err := q.Ask(one)
		if err != nil {
			var cut bool
			if r, cut = node.CutShort(ctx, err); !cut {
				if one.Err() != nil { // regardless of the error that gRPC turns it into
					err = one.Err()
				}
				r = Unanswering(err, q.Name, limit)
			}
		}
		p.Report(r.On(prefix+q.Name).With(probe.FactSocket, socket))
	})
}

// Unanswering evaluates the error of a gRPC call to a runtime.
func Unanswering(err error, what string, limit time.Duration) probe.Result {
	reason := probe.Reason(err)
	if status.Code(err) == codes.DeadlineExceeded {
		reason = "timeout"
	}
	var r probe.Result
	switch {
	case reason == "timeout":
		r = probe.Found(probe.Fail, "%s: accepts the connection but does not answer within %v", what, limit)
	case status.Code(err) == codes.Unavailable, reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "%s: accepted the connection but does not answer: %v", what, err)
	default:
		r = probe.Found(probe.Unknown, "%s: %v", what, err)
	}
	return r.With(probe.FactReason, reason)
}
