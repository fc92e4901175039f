package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// refusal is why a pod cannot be entered, and after which delay.
type refusal struct {
	after time.Duration
	err   error
}

// TestTwoPods runs a check in two pods of different owners if there are two. Only a failure in both is a fault of all
// pods, and a hanging pod delays nothing.
func TestTwoPods(t *testing.T) {
	t.Parallel()
	pod := func(name string) Target { return Target{Kind: KindLocal, Name: name} }
	for name, c := range map[string]struct {
		pods []Target
		says map[string]Status // the result in each pod; a missing pod hangs
		want []string
		// refused are the pods that cannot be entered, with the reason and the delay.
		refused map[string]refusal
	}{
		"both see it": {
			pods: []Target{pod("a/1"), pod("b/1")}, says: map[string]Status{"a/1": Fail, "b/1": Fail},
			want: []string{"fail a/1: seen", "fail b/1: seen"},
		},
		"only one sees it": {
			pods: []Target{pod("a/1"), pod("b/1")}, says: map[string]Status{"a/1": Fail, "b/1": OK},
			want: []string{"ok b/1: seen", "warn a/1: seen; from b/1 it is ok"},
		},
		"the other does not know": {
			pods: []Target{pod("a/1"), pod("b/1")}, says: map[string]Status{"a/1": Fail, "b/1": Unknown},
			want: []string{"fail a/1: seen", "unknown b/1: seen"},
		},
		"there is one, with two addresses": {
			pods: []Target{pod("a/1"), pod("a/1")}, says: map[string]Status{"a/1": Fail},
			want: []string{"fail a/1: seen"},
		},
		"of two owners": {
			pods: []Target{pod("a/1"), pod("a/2"), pod("a/3"), pod("b/1")},
			says: map[string]Status{"a/1": Fail, "b/1": Fail},
			want: []string{"fail a/1: seen", "fail b/1: seen"},
		},
		"of one owner": {
			pods: []Target{pod("a/1"), pod("a/2"), pod("a/3")}, says: map[string]Status{"a/1": OK, "a/2": OK},
			want: []string{"ok a/1: seen", "ok a/2: seen"},
		},
		"one hangs": {
			pods: []Target{pod("a/1"), pod("b/1")}, says: map[string]Status{"a/1": Fail},
			want: []string{"fail a/1: seen"},
		},
		"two take their time and cannot be entered": {
			pods: []Target{pod("a/1"), pod("b/1"), pod("a/2")}, says: map[string]Status{"a/2": OK},
			want:    []string{"ok a/2: seen"},
			refused: map[string]refusal{"a/1": {time.Second, ErrNotVisible}, "b/1": {time.Second, ErrNotVisible}},
		},
		"one breaks, and then another is not seen": {
			pods: []Target{pod("a/1"), pod("b/1")},
			refused: map[string]refusal{"a/1": {0, errors.New("it broke")},
				"b/1": {50 * time.Millisecond, ErrNotVisible}},
			want: []string{"unknown : not run inside a pod: it broke"},
		},
		"none is seen": {
			pods:    []Target{pod("a/1"), pod("b/1")},
			refused: map[string]refusal{"a/1": {0, ErrNotVisible}, "b/1": {0, ErrNotVisible}},
			want:    []string{"skip : not run inside a pod: " + ErrNotVisible.Error()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within := check("pod-only", func(context.Context, *Pass) {})
			within.From, within.Limit = FromPod, 300*time.Millisecond
			if c.refused != nil {
				within.Limit = 2 * time.Second
			}
			enter := func(ctx context.Context, pod Target, req Request, emit func(Event)) error {
				at, ok := ctx.Deadline()
				if left := time.Until(at); !ok || left > 0 && req.Plan.Limit > left {
					t.Errorf("%s has %v of the %v that are left", pod.Name, req.Plan.Limit, left)
				}
				if no, is := c.refused[pod.Name]; is {
					time.Sleep(no.after)
					return no.err
				}
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
