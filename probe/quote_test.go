package probe_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestQuote lets a real shell expand a quoted word.
func TestQuote(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	for _, text := range []string{
		"", "worker-3", "a b", "it's", "''", `\'`, `"$HOME"`, "$(id)", "`id`", "a;id", "a\nid", "~", "*", "#x", "!x",
		"=ls", "{a,b}", "a\\", "\x1b[31m", "名", "-n", "a=b", "&|<>()",
	} {
		out, err := exec.CommandContext(t.Context(), sh, "-c", "printf '%s|' "+probe.Quote(text)).CombinedOutput()
		if want := text + "|"; err != nil || string(out) != want {
			t.Errorf("%q: %q (%v) of %s", text, out, err, probe.Quote(text))
		}
	}
	for _, plain := range []string{"worker-3", "/etc/cni/net.d/10-calico.conflist", "root@10.0.0.1", "fd00::1",
		"IP=a,b"} {
		if got := probe.Quote(plain); got != plain {
			t.Errorf("%s needs no quotes: %s", plain, got)
		}
	}
	if strings.Contains(probe.Quote("a'b"), "a'b") {
		t.Error("a quote ends the word")
	}
	if got := probe.Quote("=ls"); got != "'=ls'" {
		t.Errorf("zsh makes a path of %s", got)
	}
}
