//go:build e2e

package skbdrop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestObject compiles the programs again and compares the result with the committed bytes, so the source is what runs
// in the kernel.
func TestObject(t *testing.T) {
	out := filepath.Join(t.TempDir(), "skbdrop.o")
	if said, err := exec.Command("../../scripts/bpf.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	made := must.Get(os.ReadFile(out))(t)
	if !bytes.Equal(made, object) {
		t.Error("skbdrop.o is not what its source gives: run 'make bpf' and commit it")
	}
}
