package injector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A mutating webhook or policy may change an object when it is created. A probe that runs outside the node's network,
// on another node or from another image does not describe the node. An extra container in its pod can read its output.
// So the created object is compared with the requested object. If a field that decides the probe's identity, view or
// cost to the node differs, the session does not send the probe a request. Fields that the API server fills in, or that
// only decide when and where a pod is scheduled, may differ: the kubelet checks them.

// field is one field of the requested and the created object.
type field struct {
	path      string
	want, got any
}

// firstDifferent describes the first field that differs, or returns "".
func firstDifferent(fields []field) string {
	for _, f := range fields {
		if !equality.Semantic.DeepEqual(f.want, f.got) {
			return fmt.Sprintf("%s is %s instead of %s", f.path, inJSON(f.got), inJSON(f.want))
		}
	}
	return ""
}

// inJSON formats a value as JSON, which escapes all control characters.
func inJSON(v any) string {
	const most = 120
	b, err := json.Marshal(v)
	if err != nil {
		return "unreadable" // cannot happen with a pod's values
	}
	if r := []rune(string(b)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(b)
}

// systemCritical is the lowest priority for which a kubelet evicts other pods.
const systemCritical = 2_000_000_000

// alteredPod describes how the created pod differs from the requested pod, or returns "".
func alteredPod(want, got *corev1.Pod) string {
	a, g := &want.Spec, &got.Spec
	if what := firstDifferent([]field{
		{"spec.hostNetwork", a.HostNetwork, g.HostNetwork},
		{"spec.hostPID", a.HostPID, g.HostPID},
		{"spec.hostIPC", a.HostIPC, g.HostIPC},
		{"spec.hostUsers", on(a.HostUsers), on(g.HostUsers)},
		{"spec.nodeName", a.NodeName, g.NodeName},
		{"spec.runtimeClassName", a.RuntimeClassName, g.RuntimeClassName},
		{"spec.initContainers", names(a.InitContainers), names(g.InitContainers)},
		{"spec.containers", names(a.Containers), names(g.Containers)},
		{"spec.ephemeralContainers", len(a.EphemeralContainers), len(g.EphemeralContainers)},
		{"spec.shareProcessNamespace", off(a.ShareProcessNamespace), off(g.ShareProcessNamespace)},
		{"spec.automountServiceAccountToken", a.AutomountServiceAccountToken, g.AutomountServiceAccountToken},
		{"spec.enableServiceLinks", a.EnableServiceLinks, g.EnableServiceLinks},
		{"spec.volumes", volumes(a.Volumes), volumes(g.Volumes)},
		{"spec.dnsPolicy", a.DNSPolicy, g.DNSPolicy},
		{"spec.dnsConfig", resolver(a), resolver(g)},
		{"spec.hostAliases", a.HostAliases, g.HostAliases},
		{"spec.securityContext.sysctls", sysctls(a), sysctls(g)},
		{"spec.restartPolicy", a.RestartPolicy, g.RestartPolicy},
		{"spec.activeDeadlineSeconds", a.ActiveDeadlineSeconds, g.ActiveDeadlineSeconds},
		{"metadata.labels", want.Labels, known(want.Labels, got.Labels)},
		{"metadata.annotations", want.Annotations, known(want.Annotations, got.Annotations)},
		{"metadata.annotations", deciding(want), deciding(got)},
		{"spec.resourceClaims", a.ResourceClaims, g.ResourceClaims},
		{"metadata.ownerReferences", owners(want, want), owners(got, want)},
	}); what != "" {
		return what
	}
	if p := ptr.Deref(g.Priority, 0); p >= systemCritical {
		return fmt.Sprintf("spec.priority is %d: the kubelet would evict other pods for it", p)
	}
	return alteredContainer("spec.containers[0].",
		a.SecurityContext, &a.Containers[0], g.SecurityContext, &g.Containers[0])
}

// alteredEphemeral describes how the created ephemeral container or its pod differs from the request, or returns "".
// verified is the UID of the node's calico-node pod.
func alteredEphemeral(want corev1.EphemeralContainer, node string, verified types.UID, pod *corev1.Pod) string {
	all := pod.Spec.EphemeralContainers
	at := slices.IndexFunc(all, func(c corev1.EphemeralContainer) bool { return c.Name == want.Name })
	if at < 0 {
		return "spec.ephemeralContainers has no " + want.Name
	}
	if what := firstDifferent([]field{
		{"metadata.uid", verified, pod.UID},
		{"spec.nodeName", node, pod.Spec.NodeName},
		{"spec.hostNetwork", true, pod.Spec.HostNetwork},
		{"its targetContainerName", want.TargetContainerName, all[at].TargetContainerName},
	}); what != "" {
		return what
	}
	a, g := corev1.Container(want.EphemeralContainerCommon), corev1.Container(all[at].EphemeralContainerCommon)
	return alteredContainer("its ", pod.Spec.SecurityContext, &a, pod.Spec.SecurityContext, &g)
}

// alteredContainer compares the created probe container with the requested container. Each inherits from its pod's
// security context.
func alteredContainer(path string, inA *corev1.PodSecurityContext, a *corev1.Container,
	inG *corev1.PodSecurityContext, g *corev1.Container,
) string {
	if what := firstDifferent([]field{{path + "image", a.Image, g.Image}}); what != "" {
		return what + "; if that is the same image, specify it with --image"
	}
	if what := firstDifferent([]field{
		{path + "command", a.Command, g.Command},
		{path + "args", a.Args, g.Args},
		{path + "workingDir", a.WorkingDir, g.WorkingDir},
		{path + "env", goEnv(a.Env), goEnv(g.Env)},
		{path + "envFrom", a.EnvFrom, g.EnvFrom},
		{path + "volumeMounts", mounts(a.VolumeMounts, a.VolumeMounts), mounts(g.VolumeMounts, a.VolumeMounts)},
		{path + "resources.claims", a.Resources.Claims, g.Resources.Claims},
		{path + "terminationMessagePath", messagePath(a), messagePath(g)},
		{path + "volumeDevices", a.VolumeDevices, g.VolumeDevices},
		{path + "lifecycle", a.Lifecycle, g.Lifecycle},
		{path + "livenessProbe", a.LivenessProbe, g.LivenessProbe},
		{path + "readinessProbe", a.ReadinessProbe, g.ReadinessProbe},
		{path + "startupProbe", a.StartupProbe, g.StartupProbe},
		{path + "restartPolicy", a.RestartPolicy, g.RestartPolicy},
		{path + "restartPolicyRules", a.RestartPolicyRules, g.RestartPolicyRules},
		{path + "stdin", a.Stdin, g.Stdin},
		{path + "stdinOnce", a.StdinOnce, g.StdinOnce},
		{path + "tty", a.TTY, g.TTY},
	}); what != "" {
		return what
	}
	return alteredSecurity(path+"securityContext.", securityIn(inA, a), securityIn(inG, g))
}

// alteredSecurity compares two effective security contexts, with the API's defaults filled in.
func alteredSecurity(path string, a, g corev1.SecurityContext) string {
	const usual = corev1.DefaultProcMount
	addA, dropA := capabilities(a)
	addG, dropG := capabilities(g)
	if g.AppArmorProfile == nil { // before Kubernetes 1.30 it is only in the annotation
		g.AppArmorProfile = a.AppArmorProfile
	}
	return firstDifferent([]field{
		{path + "privileged", off(a.Privileged), off(g.Privileged)},
		{path + "capabilities.add", addA, addG},
		{path + "capabilities.drop", dropA, dropG},
		{path + "runAsUser", a.RunAsUser, g.RunAsUser},
		{path + "runAsGroup", a.RunAsGroup, g.RunAsGroup},
		{path + "runAsNonRoot", off(a.RunAsNonRoot), off(g.RunAsNonRoot)},
		{path + "readOnlyRootFilesystem", off(a.ReadOnlyRootFilesystem), off(g.ReadOnlyRootFilesystem)},
		{path + "allowPrivilegeEscalation", on(a.AllowPrivilegeEscalation), on(g.AllowPrivilegeEscalation)},
		{path + "procMount", ptr.Deref(a.ProcMount, usual), ptr.Deref(g.ProcMount, usual)},
		{path + "seLinuxOptions.type", seLinuxType(a), seLinuxType(g)},
		{path + "seccompProfile", a.SeccompProfile, g.SeccompProfile},
		{path + "appArmorProfile", a.AppArmorProfile, g.AppArmorProfile},
	})
}

// securityIn returns a container's security context, including settings inherited from its pod.
func securityIn(pod *corev1.PodSecurityContext, c *corev1.Container) corev1.SecurityContext {
	var own corev1.SecurityContext
	if c.SecurityContext != nil {
		own = *c.SecurityContext
	}
	if pod != nil {
		own.SELinuxOptions = cmp.Or(own.SELinuxOptions, pod.SELinuxOptions)
		own.RunAsUser = cmp.Or(own.RunAsUser, pod.RunAsUser)
		own.RunAsGroup = cmp.Or(own.RunAsGroup, pod.RunAsGroup)
		own.RunAsNonRoot = cmp.Or(own.RunAsNonRoot, pod.RunAsNonRoot)
		own.SeccompProfile = cmp.Or(own.SeccompProfile, pod.SeccompProfile)
		own.AppArmorProfile = cmp.Or(own.AppArmorProfile, pod.AppArmorProfile)
	}
	return own
}

// capabilities returns the added capabilities that are not dropped by name, and whether all other capabilities are
// dropped.
func capabilities(sc corev1.SecurityContext) (added []corev1.Capability, dropped bool) {
	if sc.Capabilities == nil {
		return nil, false
	}
	for _, c := range sc.Capabilities.Add {
		if !slices.Contains(sc.Capabilities.Drop, c) {
			added = append(added, c)
		}
	}
	slices.Sort(added)
	return added, slices.Contains(sc.Capabilities.Drop, "ALL")
}

// on and off return the value of a switch whose default is true or false.
func on(p *bool) bool  { return ptr.Deref(p, true) }
func off(p *bool) bool { return ptr.Deref(p, false) }

// seLinuxType returns the part of the options that decides what the process may access; OpenShift adds a level.
func seLinuxType(sc corev1.SecurityContext) string {
	if sc.SELinuxOptions == nil {
		return ""
	}
	return sc.SELinuxOptions.Type
}

// goEnv returns the variables, with values, that affect a Go program or its libraries and so could change the probe's
// answers. The probe does not read other variables, such as those for proxies or tracing.
func goEnv(env []corev1.EnvVar) []string {
	var out []string
	for _, v := range env {
		for _, prefix := range []string{"GO", "GRPC_", "SSL_CERT_"} {
			if strings.HasPrefix(v.Name, prefix) {
				out = append(out, v.Name+"="+v.Value)
			}
		}
	}
	return out
}

func names(containers []corev1.Container) []string {
	var out []string
	for _, c := range containers {
		out = append(out, c.Name)
	}
	return out
}

// volumes returns the volumes without the host path type that the API server fills in.
func volumes(all []corev1.Volume) []corev1.Volume {
	out := slices.Clone(all)
	for i := range out {
		if h := out[i].HostPath; h != nil && ptr.Deref(h.Type, "") == "" {
			out[i].HostPath = &corev1.HostPathVolumeSource{Path: h.Path}
		}
	}
	return out
}

// mounts returns the mounts without the field that API servers before Kubernetes 1.30 lack.
func mounts(all, want []corev1.VolumeMount) []corev1.VolumeMount {
	out := slices.Clone(all)
	for i := range out {
		if out[i].RecursiveReadOnly == nil && i < len(want) {
			out[i].RecursiveReadOnly = want[i].RecursiveReadOnly
		}
		if ptr.Deref(out[i].MountPropagation, "") == corev1.MountPropagationNone {
			out[i].MountPropagation = nil
		}
	}
	return out
}

func sysctls(spec *corev1.PodSpec) []corev1.Sysctl {
	if spec.SecurityContext == nil {
		return nil
	}
	return spec.SecurityContext.Sysctls
}

// resolver returns the part of a pod's DNS settings that decides which server resolves a name. It omits options,
// because policies often add some.
func resolver(spec *corev1.PodSpec) corev1.PodDNSConfig {
	if spec.DNSConfig == nil {
		return corev1.PodDNSConfig{}
	}
	return corev1.PodDNSConfig{Nameservers: spec.DNSConfig.Nameservers, Searches: spec.DNSConfig.Searches}
}

// known returns the values of the requested keys in the created object.
func known(want, got map[string]string) map[string]string {
	out := map[string]string{}
	for key := range want {
		if value, ok := got[key]; ok {
			out[key] = value
		}
	}
	return out
}

// deciding returns the annotations that decide how a pod runs. If a pod has the annotations of static pods
// (k8s.io/kubernetes), the kubelet does not run it. If it has those of the Container Device Interface, containerd,
// CRI-O or Kata, the container runtime adds devices, mounts, hooks or a virtual machine.
func deciding(p *corev1.Pod) []string {
	var out []string
	for key := range p.Annotations {
		for _, prefix := range []string{
			"kubernetes.io/config.", "cdi.k8s.io/", "io.containerd.", "io.kubernetes.cri", "io.katacontainers.",
		} {
			if strings.HasPrefix(key, prefix) {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}

// messagePath returns where the kubelet mounts the termination message file in a container.
func messagePath(c *corev1.Container) string {
	return cmp.Or(c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
}

// owners returns the UIDs of the owners that both pods share.
func owners(pod, other *corev1.Pod) []string {
	var out []string
	for _, o := range pod.OwnerReferences {
		if slices.ContainsFunc(other.OwnerReferences, func(x metav1.OwnerReference) bool { return x.UID == o.UID }) {
			out = append(out, string(o.UID))
		}
	}
	return out
}
