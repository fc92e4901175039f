package injector

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestNoise requires that a node with endless output, before or during the upload, is given up long before the timeout.
// The client reads only slightly more than the limit.
func TestNoise(t *testing.T) {
	onUnix(t)
	t.Parallel()
	for name, c := range map[string]struct {
		line string // the line it repeats
		word string // its first reply of the script
		errs bool   // on stderr
	}{
		"no end of line":    {line: "xxxxxxxx"},
		"line after line":   {line: "welcome!\n"},
		"on stderr":         {line: "xxxxxxxx", errs: true},
		"after a good word": {line: "xxxxxxxx", word: "on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := laden(t, standIn)
			o.Start = time.Minute
			said, ended := 0, make(chan struct{})
			var flood remoteShell = func(_ context.Context, _ string, in io.Reader, out, errs io.Writer) error {
				defer close(ended)
				go func() { _, _ = io.Copy(io.Discard, in) }() // ends with the test's connection
				if c.word != "" {
					_, _ = io.WriteString(out, "\n"+o.Run+" "+c.word+"\n") // an error also fails the next write
				}
				if c.errs {
					out = errs
				}
				piece := []byte(strings.Repeat(c.line, 1<<10))
				for said <= 64<<20 {
					n, err := out.Write(piece)
					said += n
					if err != nil {
						return err
					}
				}
				return errors.New("nobody stopped it")
			}
			began := time.Now()
			_, err := upload(t.Context(), o, "ssh", "", view{root: "/"}, flood, anywhere)
			failed, ok := errors.AsType[*uploadError](err)
			if !ok || !errors.Is(failed.err, errNoise) {
				t.Fatalf("%v, want %v", err, errNoise)
			}
			if took := time.Since(began); took > o.Start/2 {
				t.Errorf("that took %v", took)
			}
			if pe := sshReason(Options{Destination: "n"}, failed); pe.Reason != facts.ReasonShell ||
				!strings.Contains(pe.Text, "prints endlessly") || len(pe.Text) > 200 {
				t.Error(pe)
			}
			if pe := execFailed(execTarget{
				pod: &corev1.Pod{}, container: &corev1.Container{},
			}, failed); pe.Reason != facts.ReasonShell || !strings.Contains(pe.Text, "prints endlessly") ||
				len(pe.Text) > 200 {
				t.Error(pe)
			}
			if c.errs { // stderr never blocks
				return
			}
			<-ended
			if most := maxNoise + 64<<10; said > most {
				t.Errorf("%d bytes were taken, want %d at most", said, most)
			}
		})
	}
}

// TestLastOutput requires a Go program's panic reason instead of its stacks, or else the end of the output.
func TestLastOutput(t *testing.T) {
	t.Parallel()
	stacks := strings.Repeat("\tmain.go:1 +0x10\n", 100)
	for want, written := range map[string][]string{
		"fatal error: newosproc":    {"fatal er", "ror: newosproc\n", stacks},
		"runtime: failed to create": {"runtime: failed to create\nfatal error: newosproc\n" + stacks},
		"no such file":              {"no such file"},
		"said the panic: of others": {"said the panic: of others\n"},
	} {
		var l lastOutput
		for _, text := range written {
			must.Get(l.Write([]byte(text)))(t)
		}
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
