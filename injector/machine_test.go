package injector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// TestStrange holds when a machine that ssh has reached is taken for the node.
func TestStrange(t *testing.T) {
	t.Parallel()
	mine, other := probe.MachineOf("1"), probe.MachineOf("2")
	for name, c := range map[string]struct {
		id     string // the Node's
		named  bool
		said   string
		err    error
		reason Reason // "" = it is taken
		says   string // in the refusal, or in a note
	}{
		"the same":              {id: "1", said: mine},
		"the same by name":      {id: "1", named: true, said: mine},
		"another":               {id: "1", said: other, reason: ReasonMachine, says: "ssh reached another machine: its machine-id is not that of worker-3.example.com"},
		"another by name":       {id: "1", named: true, said: other, reason: ReasonMachine, says: "ssh reached another machine"},
		"it shows none":         {id: "1", reason: ReasonMachine, says: "no machine-id is to be had there, so nothing says that this is worker-3.example.com: name the host with --ssh"},
		"it shows none by name": {id: "1", named: true, says: "no machine-id is to be had there: only your --ssh says that n is worker-3.example.com"},
		"the API has none":      {said: mine, reason: ReasonMachine, says: "the API has no machine-id that is worker-3.example.com's alone"},
		"none by name":          {named: true, said: mine, says: "only your --ssh says that n is "},
		"neither has one":       {reason: ReasonMachine, says: "the API has no machine-id"},
		"it does not say":       {id: "1", named: true, err: errors.New("it broke off"), reason: ReasonReach, says: "does not say on which machine it is: it broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := ""
			o := options
			o.Destination, o.Machine, o.Named, o.Note = "n", c.id, c.named, func(text string) { note = text }
			pe := strange(o, c.said, c.err)
			if pe == nil {
				pe = &PlacementError{Text: note}
			}
			if pe.Reason != c.reason || !strings.Contains(pe.Text, c.says) || c.says == "" && pe.Text != "" {
				t.Errorf("%s %q, want %s %q", pe.Reason, pe.Text, c.reason, c.says)
			}
		})
	}
}

// TestElsewhere holds the same for a container, which the API server vouches for.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	o := options
	d := door{pod: &corev1.Pod{}, container: &corev1.Container{}}
	for said, c := range map[string]struct{ id, says string }{
		probe.MachineOf("1"): {"1", ""},
		probe.MachineOf("2"): {"1", "is on another machine"},
		probe.MachineOf("3"): {"", ""},
		"":                   {"1", ""},
	} {
		o.Machine = c.id
		pe := d.elsewhere(o)(said, nil)
		if (pe != nil) != (c.says != "") || pe != nil && (pe.Reason != ReasonMachine || !strings.Contains(pe.Text, c.says)) {
			t.Errorf("%q: %v", said, pe)
		}
	}
	if pe := d.elsewhere(o)("", errors.New("it broke off")); pe == nil || !pe.Waited {
		t.Error(pe)
	}
}

// onMachine is a carried probe that says on which machine it is, tells a result that nobody
// has asked for before that, and answers whatever is asked then.
func onMachine(id string) string {
	return strings.Replace(standIn, `echo '{"seq":0,"type":"start","start":{"v":1,"access":["'"$*"'"]}}'
echo '{"seq":1,`, fmt.Sprintf(`echo '{"seq":0,"type":"log","text":"believe me"}'
echo '{"seq":1,"type":"result","result":{"check":"felix-live","status":"ok","saw":"alive"}}'
echo '{"seq":2,"type":"start","start":{"v":1,"machine":%q}}'
echo '{"seq":3,"type":"end","end":{}}'
read plan
echo '{"seq":4,"type":"start","start":{"v":1}}'
echo '{"seq":5,`, probe.MachineOf(id)), 1)
}

// TestOnMachine wants nothing passed on that was said before it is known where, and the
// probe on another machine to be ended and to leave nothing.
func TestOnMachine(t *testing.T) {
	onUnix(t)
	t.Parallel()
	open := func(t *testing.T, o Options) (*Session, error) {
		s, err := carry(t.Context(), o, "ssh", "somewhere", view{root: "/", proc: "/proc"}, here("sh"))
		if err != nil {
			t.Fatal(err)
		}
		return s.onMachine(t.Context(), o, func(said string, err error) *PlacementError { return strange(o, said, err) })
	}
	t.Run("the node", func(t *testing.T) {
		t.Parallel()
		o := laden(t, onMachine("1"))
		o.Machine = "1"
		s, err := open(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{Run: o.Run}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []probe.EventType{probe.EventStart, probe.EventEnd} {
			if ev, err := s.Next(t.Context()); err != nil || ev.Type != want {
				t.Errorf("%+v %v, want %s", ev, err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		noLeft(t, o)
	})
	t.Run("another", func(t *testing.T) {
		t.Parallel()
		o := laden(t, onMachine("2"))
		o.Machine = "1"
		s, err := open(t, o)
		pe, ok := errors.AsType[*PlacementError](err)
		if s != nil || !ok || pe.Reason != ReasonMachine {
			t.Errorf("%v %v", s, err)
		}
		eventuallyNoLeft(t, o)
	})
	t.Run("it says all but that", func(t *testing.T) {
		t.Parallel()
		o := laden(t, strings.Replace(standIn, "echo '{", "n=0; while echo '{\"seq\":'$n',\"type\":\"log\",\"text\":\"soon\"}'; do n=$((n+1)); done; echo '{", 1))
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("the user has gone"))
		defer cancel()
		s, err := carry(ctx, o, "ssh", "somewhere", view{root: "/", proc: "/proc"}, here("sh"))
		if errors.Is(err, errNoShell) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, err = s.onMachine(ctx, o, func(said string, err error) *PlacementError { return strange(o, said, err) }); s != nil || err == nil || !strings.Contains(err.Error(), "it says too much") {
			t.Errorf("%v %v", s, err)
		}
		eventuallyNoLeft(t, o)
	})
}
