package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// TestImageName checks that an invalid image name is rejected before any request.
func TestImageName(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run --node a --image", "shell --node a -c help --image", "preflight --image", "shell --node a -c help --toolbox-image"} {
		for _, image := range []string{"", "bad image", "a/UPPER", "a:b:c", "a@sha256:0"} {
			args := append(strings.Fields(verb), image)
			flag := args[len(args)-2]
			exit, out, errs := call(t, args...)
			if exit != report.ExitUsage || out != "" || errs != fmt.Sprintf("calico-probe: error: %s %q: invalid image name\n", flag, image) {
				t.Errorf("%s %q: exit %d, %s%s", verb, image, exit, out, errs)
			}
		}
	}
	for _, image := range []string{probe.Image, "a", "local:5000/a/b_c:1",
		pinned(probe.Toolbox, "sha256:"+strings.Repeat("0f", 32))} {
		if err := examine.CheckImage("image", image); err != nil {
			t.Error(err)
		}
	}
}

// TestVersionJSON requires a development build to name its images by tag, in both formats.
func TestVersionJSON(t *testing.T) {
	t.Parallel()
	exit, out, errs := call(t, "version", "-o", "json")
	var got identity
	if err := json.Unmarshal([]byte(out), &got); err != nil || exit != 0 || errs != "" {
		t.Fatalf("exit %d, %v: %s%s", exit, err, out, errs)
	}
	if got.Version != probe.Release || got.Wire != probe.Version || got.Image != probe.Image ||
		got.Toolbox != probe.Toolbox {
		t.Errorf("%+v", got)
	}
	_, text, _ := call(t, "version")
	for _, want := range []string{got.Version, got.Revision, got.Platform, got.Image, got.Toolbox} {
		if want == "" || !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

// TestDigestsOfARelease requires a release to name its images by digest, because a tag can be moved.
func TestDigestsOfARelease(t *testing.T) {
	const one, two = "sha256:1", "sha256:2"
	probeDigest, toolboxDigest = one, two
	defer func() { probeDigest, toolboxDigest = "", "" }()
	_, out, _ := call(t, "version", "-o", "json")
	var got identity
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Image != probe.Image+"@"+one ||
		got.Toolbox != probe.Toolbox+"@"+two {
		t.Errorf("%v: %s", err, out)
	}
}
