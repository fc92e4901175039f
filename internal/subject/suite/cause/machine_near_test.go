package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestDiskBesideAnotherReason wants a disk that is short of room not to hide why pods really do not start, nor where
// else there is no room.
func TestDiskBesideAnotherReason(t *testing.T) {
	t.Parallel()
	disk := probe.Found(probe.Fail, "9 %% of 10.0 GB free").On("/var/log").With(host.FactFree, 9.0).
		With(host.FactFreeInodes, 90.0).With(host.FactReadOnly, false)
	disk.Check = host.NodeDisk.ID
	for text, want := range map[string]string{
		`Failed to create pod sandbox: rpc error: code = Unknown desc = plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized`: "disk-full /var/log medium, cni-plugin-fails medium",
		"Failed to create pod sandbox: rpc error: code = Unknown desc = mkdir /run/containerd/x: no space left on device":                                                              "disk-full /var/log medium, disk-full /run medium",
	} {
		s := facts.SandboxFailed(text)
		pods := s.On(probe.Found(probe.Fail, "2 pods wait: %s", s.Message).On(s.Starts).With(facts.Starts, s.Starts).
			With(facts.Message, s.Message))
		pods.Check = facts.CheckPodsStart
		f := diagnose.Findings{Node: "a", All: []diagnose.Finding{{Node: "a", Result: disk}, {Node: "a", Result: pods}}}
		if got := causesOf(f); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestFewInodes requires the fix for inodes if these, and not the space, are short.
func TestFewInodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		space, inodes float64
		says, fix     string
	}{
		{60, 0, "has no inode left", "inodes"},
		{60, 3, "has few inodes left", "inodes"},
		{3, 60, "is full", ""},
		{2, 3, "is full", ""},
	} {
		disk := probe.Found(probe.Fail, "little is free").On("/data").With(host.FactFree, c.space).
			With(host.FactFreeInodes, c.inodes).With(host.FactReadOnly, false)
		disk.Check = host.NodeDisk.ID
		got := All().Rule("disk-full").Match(found(disk))
		if len(got) != 1 || got[0].FixName != c.fix || !strings.Contains(got[0].Says, c.says) {
			t.Errorf("%v: %+v", c, got)
		}
	}
}
