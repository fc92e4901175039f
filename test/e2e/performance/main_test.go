package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestPage creates a page from a complete benchmark, and none if a figure is missing.
func TestPage(t *testing.T) {
	t.Parallel()
	bench, err := os.ReadFile("testdata/bench.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := write(&out, strings.NewReader(string(bench)), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"on 1970-01-01", "(AMD EPYC)", "| pause pod | | | 445 ms |",
		"**1.03 times**", "**0.98 s more**"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	cut := strings.Replace(string(bench), "pause-pod-ms", "pod-ms", 1)
	err = write(&out, strings.NewReader(cut), time.Now())
	if err == nil || !strings.Contains(err.Error(), "pause-pod-ms") {
		t.Errorf("a figure is missing: %v", err)
	}
	spoilt := strings.Replace(string(bench), "95.93", "fast", 1)
	if err := write(&out, strings.NewReader(spoilt), time.Now()); err == nil {
		t.Error("a figure is no number")
	}
}
