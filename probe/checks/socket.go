package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// errNoSocket says that none of the sockets looked for is on the node.
var errNoSocket = errors.New("no socket")

// findSocket gives the first of the candidates that is there: its path on the
// node and the one to open. The error wraps probe.ErrNotVisible when none of the
// places is visible to this probe.
func findSocket(h *probe.Host, candidates []string) (name, full string, err error) {
	hidden := 0
	for _, name := range candidates {
		full, err := h.Path(name)
		if errors.Is(err, probe.ErrNotVisible) {
			hidden++
			continue
		}
		if err != nil {
			return "", "", err
		}
		if _, err := os.Stat(full); err == nil {
			return name, full, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("looking for %s: %w", name, err)
		}
	}
	if hidden == len(candidates) {
		return "", "", fmt.Errorf("%s: %w", candidates[0], probe.ErrNotVisible)
	}
	return "", "", fmt.Errorf("%w at %s", errNoSocket, strings.Join(candidates, ", "))
}

// dialable connects to a socket and hangs up.
func dialable(ctx context.Context, full string) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", full)
	if err != nil {
		return err
	}
	return c.Close()
}

// question is one call to a runtime.
type question struct {
	name string
	ask  func(context.Context) (probe.Result, error)
}

// askEach asks side by side, each with callWait of its own, and reports every
// answer about the question's name after the prefix.
func askEach(ctx context.Context, p *probe.Pass, socket, prefix string, questions []question) {
	each(questions, func(q question) {
		ctx, cancel := context.WithTimeout(ctx, callWait)
		defer cancel()
		r, err := q.ask(ctx)
		if err != nil {
			r = unanswering(err, q.name)
		}
		p.Report(r.On(prefix+q.name).With(FactSocket, socket))
	})
}
