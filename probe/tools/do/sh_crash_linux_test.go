package do

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// crashes panics as soon as it is read or written.
type crashes struct{}

func (crashes) Read([]byte) (int, error)  { panic("boom") }
func (crashes) Write([]byte) (int, error) { panic("boom") }

// TestShellCrashes checks that a shell whose input or output was lost to a crash ends as unknown, not as a good answer.
func TestShellCrashes(t *testing.T) {
	t.Parallel()
	size := probe.Size{Rows: 31, Cols: 101}
	for what, c := range map[string]struct {
		job  probe.Job
		args []string
	}{
		"output": {probe.Job{In: strings.NewReader(""), Out: crashes{}}, []string{"-c", "echo x"}},
		"input":  {probe.Job{In: crashes{}, Out: &screen{}, Size: size, Sizes: probe.NewSizes()}, []string{"-c", "sleep 60"}},
	} {
		run := parsed(t, "sh", c.args...)
		c.job.Host = &probe.Host{Node: "n1", Root: "/", Proc: "/proc"}
		if r := run(t.Context(), &c.job); r.Status != probe.Unknown || !strings.Contains(r.Saw, "crashed: boom") {
			t.Errorf("%s: %+v", what, r)
		}
	}
}
