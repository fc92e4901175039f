package injector

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// A DebugProfile is one of kubectl's debug profiles. It replaces only the rights of the probe's container. So the pod
// never shares the host's IPC namespace, although kubectl's node profiles share it.
type DebugProfile struct {
	Name           string
	pod, ephemeral *corev1.SecurityContext // for a probe in its own pod, and for one in calico-node's pod
	mountsRoot     bool                    // the profile mounts the node's root directory, writable
}

// Profiles lists the supported debug profiles.
var Profiles = []string{"general", "sysadmin", "netadmin"}

// NewDebugProfile returns kubectl's debug profile of that name. The profiles are copied here, because importing
// k8s.io/kubectl/pkg/cmd/debug would link much of kubectl into the program. TestProfilesOfKubectl compares the copy
// with the original. It rejects a profile without the host's namespaces, because the probe would describe its pod
// instead of the node.
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
	case "legacy": // removed in 1.39
		return nil, errors.New("kubectl removes this profile")
	}
	return nil, fmt.Errorf("unknown profile: %s", name)
}

// imposed adds every probe's settings to kubectl's security context: a read-only root file system and the user root,
// which owns the node's sockets.
func imposed(kubectl *corev1.SecurityContext) *corev1.SecurityContext {
	sc := cmp.Or(kubectl, &corev1.SecurityContext{})
	sc.RunAsUser, sc.ReadOnlyRootFilesystem = new(int64(0)), new(true)
	return sc
}

// writesNode reports whether the probe can write the node's files. Only a root shell can. With a debug profile, it can
// only if kubectl's own pod could.
func writesNode(o Options) bool {
	return o.Shell && (o.DebugProfile == nil || o.DebugProfile.mountsRoot)
}

// shellNote returns the annotation for auditors on a root shell's pod.
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
