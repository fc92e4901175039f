//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestImageByDigest names the probe's image by digest, like a release, on nodes that have it from an archive and reach
// no registry. It then uses a digest that the nodes lack: a tag beside it must not replace it.
func TestImageByDigest(t *testing.T) {
	b, err := os.ReadFile(file(".cache/probe.ref"))
	if err != nil {
		t.Fatal(err)
	}
	image := strings.TrimSpace(string(b))
	tag, digest, ok := strings.Cut(image, "@")
	if !ok {
		t.Fatalf("probe.ref has %q", b)
	}
	for _, via := range []string{"pod", "ephemeral"} {
		d, a := report(t, "run", "--node", "node-b", "--via", via, "--checks", "node-swap", "--image", image)
		d.want(t, "probe-placed", probe.OK, via)
		if got := d.of("probe-placed")[0].Facts.Str(probe.FactImageID); !strings.HasSuffix(got, "@"+digest) ||
			strings.Contains(a.stderr, " is ghcr.io/") {
			t.Errorf("%s: exit %d, the image is %q, want %s\n%s", via, a.exit, got, digest, a.stderr)
		}
	}
	other := tag + "@sha256:" + strings.Repeat("0", 64)
	d, a := report(t, "run", "--node", "node-b", "--via", "pod", "--checks", "node-swap", "--image", other)
	d.want(t, "probe-placed", probe.Unknown, "pod: ", "this node cannot get image")
	if got := d.of("probe-placed")[0].Facts.Str(probe.FactReason); a.exit != 5 || got != "image" {
		t.Errorf("exit %d, reason %q\n%s", a.exit, got, a.stderr)
	}
	nothingLeft(t)
}

// TestImageByTag requires that a run reports which image the node used for the user's tag.
func TestImageByTag(t *testing.T) {
	const moved = "registry.example/probe:moved"
	b, err := os.ReadFile(file(".cache/probe.ref"))
	if err != nil {
		t.Fatal(err)
	}
	tag, digest, _ := strings.Cut(strings.TrimSpace(string(b)), "@")
	mustSandbox(t, "exec", "node-b", "--", "ctr", "-n", "k8s.io", "images", "tag", tag, moved)
	t.Cleanup(func() { mustSandbox(t, "exec", "node-b", "--", "ctr", "-n", "k8s.io", "images", "rm", moved) })
	d, a := report(t, "run", "--node", "node-b", "--via", "pod", "--checks", "node-swap", "--image", moved)
	d.want(t, "probe-placed", probe.OK, "pod")
	id := d.of("probe-placed")[0].Facts.Str(probe.FactImageID)
	if want := "pod: image " + moved + " is " + id + " on node-b\n"; !strings.HasSuffix(id, digest) ||
		!strings.Contains(a.stderr, want) {
		t.Errorf("exit %d, it is %q, and stderr has no %q:\n%s", a.exit, id, want, a.stderr)
	}
	nothingLeft(t)
}
