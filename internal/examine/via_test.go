package examine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// TestVia requires that a list is tried in its order, without other methods, and one line for an invalid list.
func TestVia(t *testing.T) {
	t.Parallel()
	own := Options{Node: "n", Image: probe.Image, Profile: "quick", FailOn: FailOnFail, Timeout: time.Minute}
	config := Config{Rest: func() (*rest.Config, error) { return &rest.Config{Host: "127.0.0.1:1"}, nil }}
	for via, want := range map[string]string{
		"auto": "pod ephemeral exec ssh", "exec,pod": "exec pod", "ssh": "ssh", "pod,ephemeral,exec": "pod ephemeral exec",
	} {
		own.Via = via
		run, err := New(NewClient(config, t.Output()), own, report.SinkFunc(func(probe.Event) error { return nil }))
		if err != nil {
			t.Fatal(via, err)
		}
		methods, err := run.methods()
		var got []string
		for _, m := range methods {
			got = append(got, m.Name)
			if m.Open == nil {
				t.Errorf("--via %s: nothing opens %s", via, m.Name)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("--via %s: %v, %v", via, got, err)
		}
	}
	for via, want := range map[string]string{
		"pods": "did you mean pod?", "pod,exce": "did you mean exec?", "": `unknown access method ""`,
		"pod,":    `unknown access method ""`,
		"pod,pod": "--via names pod twice", "pod,api": "--via api cannot be part of a list", "auto,pod": "--via auto cannot be part of a list",
		"pod,local": "--via local cannot be part of a list", "outside,pod": "--via outside cannot be part of a list",
	} {
		own.Via = via
		err := own.Validate()
		if !errors.As(err, new(ui.UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("--via %s: %v", via, err)
		}
	}
	for _, name := range injector.FallbackNames() {
		if !slices.Contains(injector.MethodNames(), name) {
			t.Errorf("%s is no access method", name)
		}
	}
}
