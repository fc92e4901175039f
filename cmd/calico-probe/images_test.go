package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestAsListed(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"ghcr.io/a/probe:1":                "ghcr.io/a/probe:1",
		"ghcr.io/a/probe:1@sha256:0f":      "ghcr.io/a/probe@sha256:0f",
		"ghcr.io/a/probe@sha256:0f":        "ghcr.io/a/probe@sha256:0f",
		"local:5000/a/probe@sha256:0f":     "local:5000/a/probe@sha256:0f",
		"local:5000/a/probe:1@sha256:0f":   "local:5000/a/probe@sha256:0f",
		pinned(probe.Image, "sha256:0f"):   strings.TrimSuffix(probe.Image, ":"+probe.Release) + "@sha256:0f",
		pinned("registry.example/p:1", ""): "registry.example/p:1",
	} {
		if got := asListed(image); got != want {
			t.Errorf("%s is listed as %s, want %s", image, got, want)
		}
	}
}

// TestVersionJSON wants a development build to name its images by tag, in both forms.
func TestVersionJSON(t *testing.T) {
	t.Parallel()
	exit, out, errs := call(t, "version", "-o", "json")
	var got identity
	if err := json.Unmarshal([]byte(out), &got); err != nil || exit != 0 || errs != "" {
		t.Fatalf("exit %d, %v: %s%s", exit, err, out, errs)
	}
	if got.Version != probe.Release || got.Wire != probe.Version || got.Image != probe.Image || got.Toolbox != probe.Toolbox {
		t.Errorf("%+v", got)
	}
	_, text, _ := call(t, "version")
	for _, want := range []string{got.Version, got.Revision, got.Platform, got.Image, got.Toolbox} {
		if want == "" || !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}
