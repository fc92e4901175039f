package probe

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTwoPods asks out of two pods of different owners where there are two, and calls a fault
// of all pods only what both see; a pod that hangs holds nothing up.
func TestTwoPods(t *testing.T) {
	t.Parallel()
	pod := func(name string) Target { return Target{Kind: KindLocal, Name: name} }
	for name, c := range map[string]struct {
		pods []Target
		says map[string]Status // what each pod sees of the target; one that is not there hangs
		want []string
	}{
		"both see it": {
			[]Target{pod("a/1"), pod("b/1")}, map[string]Status{"a/1": Fail, "b/1": Fail},
			[]string{"fail a/1: seen", "fail b/1: seen"},
		},
		"only one sees it": {
			[]Target{pod("a/1"), pod("b/1")}, map[string]Status{"a/1": Fail, "b/1": OK},
			[]string{"ok b/1: seen", "warn a/1: seen; from b/1 it is well"},
		},
		"the other does not know": {
			[]Target{pod("a/1"), pod("b/1")}, map[string]Status{"a/1": Fail, "b/1": Unknown},
			[]string{"fail a/1: seen", "unknown b/1: seen"},
		},
		"there is one, with two addresses": {
			[]Target{pod("a/1"), pod("a/1")}, map[string]Status{"a/1": Fail}, []string{"fail a/1: seen"},
		},
		"of two owners": {
			[]Target{pod("a/1"), pod("a/2"), pod("a/3"), pod("b/1")}, map[string]Status{"a/1": Fail, "b/1": Fail},
			[]string{"fail a/1: seen", "fail b/1: seen"},
		},
		"of one owner": {
			[]Target{pod("a/1"), pod("a/2"), pod("a/3")}, map[string]Status{"a/1": OK, "a/2": OK},
			[]string{"ok a/1: seen", "ok a/2: seen"},
		},
		"one hangs": {
			[]Target{pod("a/1"), pod("b/1")}, map[string]Status{"a/1": Fail}, []string{"fail a/1: seen"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within := check("pod-only", func(context.Context, *Pass) {})
			within.From, within.Limit = FromPod, 300*time.Millisecond
			enter := func(ctx context.Context, pod Target, req Request, emit func(Event)) error {
				status, speaks := c.says[pod.Name]
				if !speaks {
					<-ctx.Done()
					return ctx.Err()
				}
				said := Result{Check: "pod-only", Target: "x", From: req.Plan.From, Status: status, Saw: "seen"}
				emit(Event{Type: EventResult, Result: &said})
				return nil
			}
			r := Runner{Suite: []*Check{within}, Host: &Host{Root: "/"}, Enter: enter}
			var got []string
			r.Run(t.Context(), Plan{Checks: []string{"pod-only"}, Targets: c.pods}, func(ev Event) {
				if ev.Result != nil {
					got = append(got, string(ev.Result.Status)+" "+ev.Result.From+": "+ev.Result.Saw)
				}
			})
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, strings.Join(c.want, "\n"))
			}
		})
	}
}
