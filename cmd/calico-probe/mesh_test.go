package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/live"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestMeshUnfinished requires a mesh without a verdict to leave files that say so.
func TestMeshUnfinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"mesh", "--kubeconfig", fleetAPI(t, "nodes")}
	for _, format := range []string{"table", "json", "yaml", "html"} {
		file := filepath.Join(dir, format)
		must.Do(t, os.WriteFile(file, []byte("healthy"), 0o600))
		args = append(args, "-o", format+"="+file)
	}
	args = append(args, "-o", "json")
	exit, out, errs := call(t, args...)
	if exit != report.ExitTool || out != "" || errs == "" {
		t.Errorf("exit %d, %s%s", exit, out, errs)
	}
	for _, format := range []string{"table", "json", "yaml", "html"} {
		b, err := os.ReadFile(filepath.Join(dir, format))
		if text := string(b); err != nil || !strings.Contains(text, "incomplete") || !strings.Contains(text, "nodes") {
			t.Errorf("%s: %v\n%s", format, err, text)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "json"))
	var r mesh.Report
	if err = errors.Join(err, json.Unmarshal(b, &r)); err != nil || r.Exit != report.ExitIncomplete || r.Lacks == "" {
		t.Errorf("%v: %s", err, b)
	}
}

// watching returns the options of a watch that writes into a buffer.
func watching(out io.Writer) *runFlags {
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: io.Discard}
	return &runFlags{app: &app{IOStreams: streams, interrupts: &ui.Interrupts{}}}
}

// TestWatchMissesANode requires a watch that ends before a node reported to be incomplete, and to name the node.
func TestWatchMissesANode(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o, board := watching(&out), mesh.NewBoard(time.Second, "a", "b")
	works := mesh.RoundReport{Round: 1, Node: "a", Trials: map[string][]mesh.Trial{
		mesh.PlaneNode: {{From: "a", To: "b", Sent: 3, Received: 3}}}}
	board.Add(works)
	if err := o.ended(board, time.Second); !errors.Is(err, ui.Exit(report.ExitIncomplete)) ||
		!strings.Contains(out.String(), "no answer from b: ") {
		t.Errorf("%v: %s", err, out.String())
	}
	works.Node = "b"
	board.Add(works)
	if err := o.ended(board, time.Second); err != nil {
		t.Error(err)
	}
}

// TestScreenBreaks requires an error of the terminal to be reported, and the probes to be removed.
func TestScreenBreaks(t *testing.T) {
	t.Parallel()
	o := watching(io.Discard)
	broken := iotest.ErrReader(errors.New("the terminal is gone"))
	s := live.New("nodes", mesh.NewBoard(time.Second), broken, io.Discard, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := false
	err := o.onScreen(ctx, cancel, func(ctx context.Context, _ func(mesh.RoundReport)) {
		<-ctx.Done()
		ended = true
	}, s, &redirected{to: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "the terminal is gone") || !ended {
		t.Errorf("%v, ended %v", err, ended)
	}
}
