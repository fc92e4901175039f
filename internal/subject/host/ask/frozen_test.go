package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestFrozenGroup reads the files of both cgroup versions, and of a cgroup that is still freezing.
func TestFrozenGroup(t *testing.T) {
	t.Parallel()
	const two, one = "sys/fs/cgroup/", "sys/fs/cgroup/freezer/"
	h := checktest.Node(t, map[string]string{
		two + "kubepods/pod1/abc/cgroup.freeze": "0\n", two + "kubepods/pod1/abc/cgroup.events": "populated 1\nfrozen 1\n",
		two + "kubepods/pod1/cgroup.freeze": "1\n", two + "kubepods/pod1/cgroup.events": "populated 1\nfrozen 1\n",
		two + "kubepods/pod2/cgroup.freeze": "1\n", two + "kubepods/pod2/cgroup.events": "populated 1\nfrozen 0\n",
		one + "kubepods/pod3/freezer.self_freezing": "1\n", one + "kubepods/pod3/freezer.state": "FROZEN\n",
		one + "kubepods/pod4/freezer.self_freezing": "1\n", one + "kubepods/pod4/freezer.state": "FREEZING\n",
	})
	for text, want := range map[string]string{
		"0::/kubepods/pod1/abc\n": "/sys/fs/cgroup/kubepods/pod1",
		"0::/kubepods/pod2\n":     "",
		"0::/kubepods\n":          "",
		"4:pids:/kubepods/pod3\n3:freezer:/kubepods/pod3\n": "/sys/fs/cgroup/freezer/kubepods/pod3",
		"3:freezer:/kubepods/pod4\n":                        "",
	} {
		if got := frozenGroup(h, text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
