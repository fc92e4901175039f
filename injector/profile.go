package injector

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// A DebugProfile is one of kubectl's debug profiles. It replaces the rights of the probe's container, and nothing else
// of what is placed. So the pod never shares the host's IPC namespace, although kubectl's profiles for nodes do.
type DebugProfile struct {
	Name           string
	pod, ephemeral *corev1.SecurityContext // of the container in a pod of its own, and in calico-node's pod
	mountsRoot     bool                    // the profile mounts the node's root directory, writable
}

// Profiles are the debug profiles that a probe can have.
var Profiles = []string{"general", "sysadmin", "netadmin"}

// NewDebugProfile returns kubectl's debug profile of that name. What each gives is written down here, for the package
// that has them (k8s.io/kubectl/pkg/cmd/debug) brings much of kubectl into the program; TestProfilesOfKubectl holds
// them to it. One that leaves a pod on a node without the host's namespaces is refused: a probe outside them would
// describe its pod, not the node.
func NewDebugProfile(name string) (*DebugProfile, error) {
	adds := func(rights ...corev1.Capability) *corev1.SecurityContext {
		return imposed(&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: rights}})
	}
	switch name {
	case "general":
		return &DebugProfile{Name: name, pod: imposed(nil), ephemeral: adds("SYS_PTRACE"), mountsRoot: true}, nil
	case "sysadmin":
		all := imposed(&corev1.SecurityContext{Privileged: new(true)})
		return &DebugProfile{Name: name, pod: all, ephemeral: all, mountsRoot: true}, nil
	case "netadmin":
		network := adds("NET_ADMIN", "NET_RAW")
		return &DebugProfile{Name: name, pod: network, ephemeral: network}, nil
	case "baseline", "restricted":
		return nil, fmt.Errorf("kubectl's profile %s has no host namespaces, so its probe cannot test the node", name)
	case "legacy": // in 1.39
		return nil, errors.New("kubectl removes this profile")
	}
	return nil, fmt.Errorf("unknown profile: %s", name)
}

// imposed adds to a security context of kubectl what holds for every probe: it is root, which owns the sockets of the
// node, and its own root file system is read-only.
func imposed(kubectl *corev1.SecurityContext) *corev1.SecurityContext {
	sc := cmp.Or(kubectl, &corev1.SecurityContext{})
	sc.RunAsUser, sc.ReadOnlyRootFilesystem = new(int64(0)), new(true)
	return sc
}

// writesNode reports whether the probe sees the node's files writable: only that of a root shell does, and under a
// debug profile only if kubectl's own pod does.
func writesNode(o Options) bool {
	return o.Shell && (o.DebugProfile == nil || o.DebugProfile.mountsRoot)
}

// shellNote is what an auditor reads in the pod of a root shell.
func shellNote(o Options) string {
	rights, files := "privileged", "writable"
	if o.DebugProfile != nil {
		rights = "debug profile " + o.DebugProfile.Name
	}
	if !writesNode(o) {
		files = "not mounted"
	}
	return fmt.Sprintf("root shell: %s, the node's files are %s", rights, files)
}
