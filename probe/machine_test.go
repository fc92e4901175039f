package probe

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMachine wants a machine told by the file that the kubelet reads, in the form that the
// wire format names, and nothing told where there is none.
func TestMachine(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef"
	const sum = "4087ebebfed52e1c2672254a423f37f58df6aa699a2c64f2ca0d13c17e347adb" // by Python's hmac
	for name, c := range map[string]struct {
		etc, dbus string // "-" = there is no such file
		only      []string
		want      string
	}{
		"usual":          {etc: id + "\n", dbus: "another\n", want: sum},
		"only of D-Bus":  {etc: "-", dbus: " " + id, want: sum},
		"empty":          {etc: "\n", dbus: id}, // the kubelet takes the first it can read
		"not yet made":   {etc: "uninitialized\n", dbus: "-"},
		"neither":        {etc: "-", dbus: "-"},
		"not to be seen": {etc: id, dbus: id, only: []string{"/run"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &Host{Root: t.TempDir(), Only: c.only}
			for file, text := range map[string]string{"etc/machine-id": c.etc, "var/lib/dbus/machine-id": c.dbus} {
				if text == "-" {
					continue
				}
				at := filepath.Join(h.Root, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := h.Machine(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
