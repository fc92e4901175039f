package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestStrange checks when a machine reached by ssh is accepted as the node.
func TestStrange(t *testing.T) {
	t.Parallel()
	const mine, other = "1", "2"
	for name, c := range map[string]struct {
		id     string // the Node's
		named  bool
		said   string
		reason facts.Reason // "" = accepted
		says   string       // in the refusal, or in a note
	}{
		"the same":         {id: "1", said: mine},
		"the same by name": {id: "1", named: true, said: mine},
		"another":          {id: "1", said: other, reason: facts.ReasonMachine, says: "ssh reached another machine: its machine-id is not that of worker-3.example.com"},
		"another by name": {
			id: "1", named: true, said: other, reason: facts.ReasonMachine, says: "ssh reached another machine",
		},
		"it shows none":         {id: "1", reason: facts.ReasonMachine, says: "its machine-id is not readable, so it cannot be identified as worker-3.example.com: name the host with --ssh"},
		"it shows none by name": {id: "1", named: true, says: "its machine-id is not readable: only your --ssh identifies n as worker-3.example.com"},
		"the API has none":      {said: mine, reason: facts.ReasonMachine, says: "the API has no unique machine-id for worker-3.example.com"},
		"none by name":          {named: true, said: mine, says: "only your --ssh identifies n as "},
		"neither has one":       {reason: facts.ReasonMachine, says: "the API has no unique machine-id"},
		"not yet made": {
			id: "uninitialized", said: mine, reason: facts.ReasonMachine, says: "the API has no unique machine-id",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := ""
			o := options
			o.Destination, o.Machine, o.Named, o.Note = "n", c.id, c.named, func(text string) { note = text }
			pe := notTheNode(o, c.said)
			if pe == nil {
				pe = &PlacementError{Text: note}
			}
			if pe.Reason != c.reason || !strings.Contains(pe.Text, c.says) || c.says == "" && pe.Text != "" {
				t.Errorf("%s %q, want %s %q", pe.Reason, pe.Text, c.reason, c.says)
			}
		})
	}
}

// TestElsewhere checks the same for a container, which the API server vouches for.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	o := options
	d := execTarget{pod: &corev1.Pod{}, container: &corev1.Container{}}
	for said, c := range map[string]struct{ id, says string }{
		"1": {"1", ""},
		"2": {"1", "is on another machine"},
		"3": {"", ""},
		"":  {"1", ""},
	} {
		o.Machine = c.id
		pe := d.verify(o)(said)
		if (pe != nil) != (c.says != "") || pe != nil &&
			(pe.Reason != facts.ReasonMachine || !strings.Contains(pe.Text, c.says)) {
			t.Errorf("%q: %v", said, pe)
		}
	}
}

// TestOnMachine requires that nothing is created before the machine-id, in the kubelet's file, matches the node's. A
// silent machine gets the usual reply time.
func TestOnMachine(t *testing.T) {
	onUnix(t)
	t.Parallel()
	for name, c := range map[string]struct {
		etc, dbus, want string // "-" = no such file
		another         bool
	}{
		"the node":        {etc: "1\n", dbus: "2\n", want: "1"},
		"only of D-Bus":   {etc: "-", dbus: " 1", want: "1"},
		"not yet made":    {etc: "uninitialized\n", dbus: "-", want: ""},
		"it shows none":   {etc: "-", dbus: "-", want: ""},
		"another machine": {etc: "2\n", dbus: "1\n", want: "2", another: true},
		"quotes and more": {etc: "'$(id)'\n", dbus: "-", want: "'$(id)'", another: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for file, text := range map[string]string{"etc/machine-id": c.etc, "var/lib/dbus/machine-id": c.dbus} {
				if text == "-" {
					continue
				}
				file = filepath.Join(root, file)
				must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
			}
			o := laden(t, standIn)
			asked := ""
			s, err := upload(t.Context(), o, "ssh", "somewhere", view{root: root, proc: "/proc"}, here("sh"),
				func(id string) *PlacementError {
					asked = "asked " + id
					noLeft(t, o)
					if c.another {
						return refuse(facts.ReasonMachine, "another machine")
					}
					return nil
				})
			if asked != "asked "+c.want {
				t.Errorf("%q, want %q", asked, c.want)
			}
			pe, refused := errors.AsType[*PlacementError](err)
			if refused != c.another || refused && pe.Reason != facts.ReasonMachine || !refused && err != nil {
				t.Errorf("%v", err)
			}
			if s != nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			eventuallyNoLeft(t, o)
		})
	}
	if got := (view{root: "/proc/1/root", only: []string{"/run"}}).machineIDs(); got != nil {
		t.Errorf("a container's own: %v", got)
	}
}

// TestStrangersMachine requires a timeout for a shell that neither shows its machine-id nor exits. Nothing is sent to
// another machine.
func TestStrangersMachine(t *testing.T) {
	onUnix(t)
	t.Parallel()
	var sent atomic.Int64
	says := func(word string) remoteShell {
		return func(ctx context.Context, script string, in io.Reader, out, _ io.Writer) error {
			run, _, _ := strings.Cut(script[strings.Index(script, `echo "`)+len(`echo "`):], " ")
			if _, err := fmt.Fprintf(out, "%s %s\n", run, word); err != nil {
				return err
			}
			n, _ := io.Copy(io.Discard, in)
			sent.Add(n)
			<-ctx.Done()
			return ctx.Err()
		}
	}
	o := laden(t, standIn)
	o.Start = 100 * time.Millisecond
	never := func(string) *PlacementError { return refuse(facts.ReasonMachine, "another machine") }
	if _, err := upload(t.Context(), o, "ssh", "", view{root: "/"}, says("on 2"), never); err == nil ||
		err.Error() != "another machine" {
		t.Error(err)
	}
	if sent.Load() != 0 {
		t.Errorf("%d bytes were sent to a strange machine", sent.Load())
	}
	if _, err := upload(t.Context(), o, "ssh", "", view{root: "/"}, says("send packed"), never); err == nil ||
		!strings.Contains(err.Error(), "unexpected reply") {
		t.Error(err)
	}
}
