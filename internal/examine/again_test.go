package examine

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLookAgain kills calico-node after the API was read and before the node is queried. The API's second answer must
// be reported, if one can be expected.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts   Options
		reason string // why Felix does not answer, "" = it does
		want   string
	}{
		"killed in between":       {Options{}, "refused", "calico-budget info OOMKilled, calico-pod warn "},
		"Felix answers":           {Options{}, "", ""},
		"Felix is stuck":          {Options{}, "timeout", ""},
		"no more is wanted":       {Options{NoFollowUp: true}, "refused", ""},
		"only certain ones":       {Options{Checks: []string{felix.FelixLive.ID}}, "refused", ""},
		"the API was not queried": {Options{Node: "nosuch"}, "refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := standard()
			server := w.server()
			client := server.client(t, "")
			snap := must.Get(client.Read(t.Context(), w.nodes[0].Name))(t)
			kills(server, w.nodes[0].Name)
			if c.opts.Node == "" {
				c.opts.Node = w.nodes[0].Name
			}
			kept := &Recorder{}
			r := newTestRun(c.opts, io.Discard, kept)
			r.picked = suiteapi.Checks(snap)
			add := func(ev probe.Event) error { return r.Add(injector.MethodAPI, ev) }
			if c.opts.Node == w.nodes[0].Name {
				must.Do(t, r.answerAPI(t.Context(), snap, aboutCalico, add))
			}
			before := len(kept.Run.Events)
			live := probe.Found(probe.OK, "live")
			if c.reason != "" {
				live = probe.Found(probe.Fail, "nobody answers").With(probe.FactReason, c.reason)
			}
			live.Check = felix.FelixLive.ID
			must.Do(t, r.Add(injector.MethodPod, probe.Event{Type: probe.EventResult, Result: &live}))
			must.Do(t, r.lookAgain(t.Context(), client, snap))
			var got []string
			for _, ev := range kept.Run.Events[before+1:] {
				got = append(got, fmt.Sprint(ev.Result.Check, " ", ev.Result.Status, " ", ev.Result.Facts.Str(facts.APIReason)))
			}
			slices.Sort(got) // they run concurrently
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("reports %q, want %q: %+v", got, c.want, kept.Run.Events[before+1:])
			}
		})
	}
}

// kills has the API say of a node's calico-node that it was killed for memory, and has begun anew.
func kills(s *apiServer, node string) {
	for _, o := range s.objects[apiCore+"/pods"] {
		at, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
		if o.GetLabels()["k8s-app"] != "calico-node" || at != node {
			continue
		}
		now := began(0).UTC().Format("2006-01-02T15:04:05Z")
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses")
		one := list[0].(map[string]any)
		one["restartCount"] = int64(1)
		one["state"] = map[string]any{"running": map[string]any{"startedAt": now}}
		one["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": int64(137), "reason": "OOMKilled",
			"startedAt": now, "finishedAt": now}}
		if err := unstructured.SetNestedSlice(o.Object, list, "status", "containerStatuses"); err != nil {
			panic(err)
		}
	}
}
