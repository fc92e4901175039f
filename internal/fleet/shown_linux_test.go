package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// written is what appears on a terminal of 100 columns.
func written(t *testing.T, do func(terminal *os.File)) string {
	t.Helper()
	t.Setenv("TERM", "xterm")
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(ours) // its error is that the other end was closed
		text <- string(b)
	}()
	do(theirs)
	if err := theirs.Close(); err != nil {
		t.Error(err)
	}
	return <-text
}

// TestNodesAreShown requires that a terminal shows how many nodes answered, and bad results as they arrive.
func TestNodesAreShown(t *testing.T) {
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	got := written(t, func(terminal *os.File) {
		r := &Run{client: examine.NewClient(examine.Config{}, terminal),
			Sink: report.SinkFunc(func(probe.Event) error { return nil }),
			Show: func(names []string) *ui.Watch { return ui.Watching(terminal, "nodes", names) }}
		ask := func(_ context.Context, n *corev1.Node, _ probe.Start) (*judging, error) {
			j := newJudging(n.Name)
			if j.verdict.Word = report.WordHealthy; n.Name == "b" {
				j.verdict.Word = report.WordFault
				j.causes = []probe.Cause{{ID: "kubelet-silent", Title: "The kubelet is silent"}}
			}
			return j, nil
		}
		r.show(nodes)
		if _, err := r.judgeAll(t.Context(), ask, nodes, 1, probe.Start{}); err != nil {
			t.Error(err)
		}
		r.shown.Close()
	})
	for _, want := range []string{"fault      b: The kubelet is silent [kubelet-silent]", "2 of 3 nodes, 0s, 1 bad; ",
		"waiting for c", "the slowest so far: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if !strings.HasSuffix(got, "\x1b[J") {
		t.Errorf("it is not erased: %q", got)
	}
}

// TestPathsAreShown requires the same for the nodes of a mesh.
func TestPathsAreShown(t *testing.T) {
	got := written(t, func(terminal *os.File) {
		m := pair()
		m.run = nil // asking from anywhere fails
		m.shown = ui.Watching(terminal, "nodes", nil)
		m.try(t.Context(), []mesh.Path{{From: 0, To: 1}}, nil)
		m.shown.Close()
	})
	for _, want := range []string{"0 of 1 nodes, 0s; waiting for a", "1 of 1 nodes, 0s, 1 bad", "unknown  from a: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}
