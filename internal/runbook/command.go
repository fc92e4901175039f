package runbook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// maxOutput is the maximum number of bytes to keep from the start of a command's output, and from its end.
const maxOutput = 64 << 10

// ran is the outcome of a command.
type ran struct {
	started bool
	exit    int    // exit code; -1 = none
	out     string // stdout
	all     string // stdout and stderr, in the order of writing
	failed  string // why there is no exit code
}

// why returns one line about why a command failed.
func (r ran) why() string {
	if r.failed != "" {
		return plainly(r.failed)
	}
	return probe.Cut(strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", r.exit, plainly(r.all)), ": "), maxSaw)
}

// start runs a program on this machine until the program exits or its limit expires, then kills its process group. The
// environment has the node, the parameters, and a kubeconfig for the runbook's cluster, because kubectl's current
// context may select another cluster.
func (w *walk) start(ctx context.Context, limit time.Duration, words []string, stdin io.Reader) (ran, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, words[0], words[1:]...)
	var out, all capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, io.MultiWriter(&out, &all), &all
	cmd.Env = append(os.Environ(), "CALICO_PROBE_NODE="+w.node)
	for name, value := range w.record.Params {
		cmd.Env = append(cmd.Env, inEnvironment(name)+"="+value)
	}
	if w.World.Kubeconfig != nil {
		name, remove, err := w.World.Kubeconfig()
		if err != nil {
			return ran{exit: -1, failed: "could not be started: " + err.Error()}, nil
		}
		defer remove()
		cmd.Env = append(cmd.Env, "KUBECONFIG="+name)
	}
	cmd.WaitDelay = 2 * time.Second // a child may keep the pipes open
	alone(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		return ran{}, context.Cause(ctx)
	}
	r := ran{started: cmd.Process != nil, exit: -1, out: out.String(), all: all.String()}
	switch {
	case limited.Err() != nil:
		r.failed = fmt.Sprintf("timed out after %v", limit)
	case err == nil, errors.As(err, new(*exec.ExitError)):
		if r.exit = cmd.ProcessState.ExitCode(); r.exit < 0 {
			r.failed = "was terminated: " + cmd.ProcessState.String()
		}
	case errors.Is(err, exec.ErrWaitDelay):
		r.exit = cmd.ProcessState.ExitCode()
	default:
		r.failed = "could not be started: " + err.Error()
	}
	return r, nil
}

// capped keeps the start and the end of an output. A check prints its result first, and a log ends with the error.
type capped struct {
	mu          sync.Mutex // two goroutines copy stdout and stderr
	first, last []byte
	cut         bool // something in between was dropped
}

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := min(len(p), maxOutput-len(c.first))
	c.first, c.last = append(c.first, p[:room]...), append(c.last, p[room:]...)
	if len(c.last) > 2*maxOutput { // trim only sometimes, because a program may write a few bytes at a time
		c.shorten()
	}
	return len(p), nil
}

func (c *capped) shorten() {
	if over := len(c.last) - maxOutput; over > 0 {
		c.last, c.cut = append(c.last[:0], c.last[over:]...), true
	}
}

func (c *capped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shorten()
	last := string(c.last)
	if c.cut {
		if _, whole, ok := strings.Cut(last, "\n"); ok { // drop the partial line before it
			last = whole
		}
		last = "\n(output in between omitted)\n" + last
	}
	return strings.ToValidUTF8(string(c.first)+last, "?")
}

// words inserts the values into a command's arguments.
func (w *walk) words(ctx context.Context, texts []string) ([]string, error) {
	var out []string
	for _, text := range texts {
		word, err := w.sight().text(ctx, text)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(text, "${") && strings.HasPrefix(word, "-") {
			return nil, fmt.Errorf("the value of %s begins with a dash, so the command would read it as an option", brief(text))
		}
		out = append(out, word)
	}
	if isProgram(filepath.ToSlash(out[0]), "kubectl", "kubectl.exe") && w.World.NoKubectl != "" {
		return nil, errors.New(w.World.NoKubectl)
	}
	return out, nil
}
