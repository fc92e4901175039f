package injector

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// mayDiffer are the fields that an API server or a policy may fill in or change, with the reason why the probe stays
// the same.
var mayDiffer = map[string]string{
	"PodSpec.TerminationGracePeriodSeconds": "it is deleted with a grace of its own",
	"PodSpec.NodeSelector":                  "the kubelet rejects what does not fit it",
	"PodSpec.Affinity":                      "the kubelet rejects what does not fit it",
	"PodSpec.Tolerations":                   "the kubelet rejects what does not fit it",
	"PodSpec.TopologySpreadConstraints":     "no scheduler sees it",
	"PodSpec.SchedulerName":                 "no scheduler sees it",
	"PodSpec.SchedulingGates":               "the API refuses it with a node's name",
	"PodSpec.SchedulingGroup":               "no scheduler sees it",
	"PodSpec.PriorityClassName":             "the priority counts",
	"PodSpec.PreemptionPolicy":              "no scheduler sees it",
	"PodSpec.ServiceAccountName":            "no token is mounted",
	"PodSpec.DeprecatedServiceAccount":      "no token is mounted",
	"PodSpec.ImagePullSecrets":              "the image is the same",
	"PodSpec.Hostname":                      "the kubelet ignores it in the node's network",
	"PodSpec.HostnameOverride":              "the API refuses it in the node's network",
	"PodSpec.Subdomain":                     "a name in DNS",
	"PodSpec.SetHostnameAsFQDN":             "the kubelet ignores it in the node's network",
	"PodSpec.ReadinessGates":                "no Service selects it",
	"PodSpec.OS":                            "the kubelet rejects what does not fit it",
	"PodSpec.Overhead":                      "it comes with a runtime class, which counts",
	"PodSpec.Resources":                     "less of it harms the probe alone",
	"PodSpec.EvictionResponders":            "the probe may be evicted",

	"PodSecurityContext.SELinuxOptions":           "the container's own is in force",
	"PodSecurityContext.WindowsOptions":           "not on Linux",
	"PodSecurityContext.RunAsUser":                "the container's own is in force",
	"PodSecurityContext.RunAsGroup":               "the container's own is in force",
	"PodSecurityContext.SupplementalGroups":       "root needs no group",
	"PodSecurityContext.SupplementalGroupsPolicy": "root needs no group",
	"PodSecurityContext.FSGroup":                  "not for a host path",
	"PodSecurityContext.FSGroupChangePolicy":      "not for a host path",
	"PodSecurityContext.SeccompProfile":           "the container's own is in force",
	"PodSecurityContext.AppArmorProfile":          "the container's own is in force",
	"PodSecurityContext.SELinuxChangePolicy":      "not for a host path",

	"Container.Env":                      "x is none that the probe reads; of others see TestAltered",
	"Container.Ports":                    "a declaration",
	"Container.ResizePolicy":             "less of it harms the probe alone",
	"Container.TerminationMessagePolicy": "nothing is written there",
	"Container.ImagePullPolicy":          "the image is the same",

	"ResourceRequirements.Limits":   "less of it harms the probe alone",
	"ResourceRequirements.Requests": "more of it the kubelet rejects on a full node",

	"SecurityContext.WindowsOptions": "not on Linux",
}

// TestEveryFieldIsJudged changes each field of a pod. A change must be reported unless the field is known to be
// harmless. Fields of later Kubernetes versions need a decision.
func TestEveryFieldIsJudged(t *testing.T) {
	t.Parallel()
	o := options
	o.Needed = []string{"NET_RAW", "SYS_ADMIN", "SYS_PTRACE"}
	asked := podFor(o, &metav1.OwnerReference{UID: "job"})
	unused := map[string]bool{}
	for name := range mayDiffer {
		unused[name] = true
	}
	for _, part := range []struct {
		name string
		of   func(*corev1.Pod) any
	}{
		{"PodSpec", func(p *corev1.Pod) any { return &p.Spec }},
		{"PodSecurityContext", func(p *corev1.Pod) any {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			return p.Spec.SecurityContext
		}},
		{"Container", func(p *corev1.Pod) any { return &p.Spec.Containers[0] }},
		{"ResourceRequirements", func(p *corev1.Pod) any { return &p.Spec.Containers[0].Resources }},
		{"SecurityContext", func(p *corev1.Pod) any { return p.Spec.Containers[0].SecurityContext }},
		{"VolumeMount", func(p *corev1.Pod) any { return &p.Spec.Containers[0].VolumeMounts[0] }},
		{"Volume", func(p *corev1.Pod) any { return &p.Spec.Volumes[0] }},
		{"OwnerReference", func(p *corev1.Pod) any { return &struct{ UID *string }{(*string)(&p.OwnerReferences[0].UID)} }},
	} {
		fields := reflect.TypeOf(part.of(asked.DeepCopy())).Elem()
		for i := range fields.NumField() {
			name := part.name + "." + fields.Field(i).Name
			heard := ""
			for _, odd := range []bool{false, true} {
				got := asked.DeepCopy()
				change(reflect.ValueOf(part.of(got)).Elem().Field(i), odd)
				heard += alteredPod(asked, got)
			}
			if _, may := mayDiffer[name]; may == (heard != "") {
				t.Errorf("%s was changed, and what is said of it is %q", name, heard)
			}
			delete(unused, name)
		}
	}
	for name := range unused {
		t.Errorf("there is no %s", name)
	}
}

// change returns a different value. With odd, it returns a third value.
func change(v reflect.Value, odd bool) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
		if odd {
			v.SetInt(systemCritical)
		}
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			if !odd || v.Elem().Kind() != reflect.Bool {
				change(v.Elem(), odd)
			}
		case odd:
			v.SetZero()
		default:
			change(v.Elem(), odd)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			change(field, odd)
		}
	case reflect.Slice:
		more := reflect.New(v.Type().Elem()).Elem()
		change(more, false)
		v.Set(reflect.Append(v, more))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	}
}

// TestAltered has real changes to pods by policies and API servers, harmless and harmful.
func TestAltered(t *testing.T) {
	t.Parallel()
	o := options
	o.Needed = []string{"NET_RAW", "SYS_ADMIN", "SYS_PTRACE"}
	plain := podFor(o, nil)
	o.Shell = true
	root := podFor(o, nil)
	probeOf := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	variable := plain.DeepCopy()
	probeOf(variable).Env = []corev1.EnvVar{{Name: "GODEBUG", Value: "netdns=go"}}
	apparmor := annotationAppArmor + containerName
	for name, c := range map[string]struct {
		asked *corev1.Pod // nil = the plain pod
		does  func(*corev1.Pod)
		says  string
	}{
		"nothing": {does: func(*corev1.Pod) {}},
		"defaults": {does: func(p *corev1.Pod) {
			p.Labels["team"], p.Annotations["openshift.io/scc"] = "a", "privileged"
			p.Spec.SchedulerName, p.Spec.ServiceAccountName, p.Spec.Priority = "default-scheduler", "default", new(int32(0))
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "default-pull"}}
			p.Spec.Volumes[0].HostPath.Type = new(corev1.HostPathUnset)
			probeOf(p).ImagePullPolicy = corev1.PullAlways
			probeOf(p).SecurityContext.SELinuxOptions.Level = "s0:c26,c5"
		}},
		"a server before 1.30": {does: func(p *corev1.Pod) {
			probeOf(p).SecurityContext.AppArmorProfile = nil
			probeOf(p).VolumeMounts[0].RecursiveReadOnly = nil
		}},
		"of a global default class": {does: func(p *corev1.Pod) { p.Spec.Priority = new(int32(1_000_000_000)) }},
		"variables of a proxy": {does: func(p *corev1.Pod) {
			probeOf(p).Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}, {Name: "DD_AGENT_HOST"}}
		}},
		"an option for DNS": {does: func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("1")}}}
		}},
		"a variable of Go's": {
			does: func(p *corev1.Pod) { probeOf(p).Env = []corev1.EnvVar{{Name: "GODEBUG", Value: "netdns=cgo"}} },
			says: `spec.containers[0].env is ["GODEBUG=netdns=cgo"] instead of null`,
		},
		"another value of one": {
			asked: variable,
			does:  func(p *corev1.Pod) { probeOf(p).Env[0].Value = "netdns=cgo" },
			says:  `spec.containers[0].env is ["GODEBUG=netdns=cgo"] instead of ["GODEBUG=netdns=go"]`,
		},
		"not the node's network": {
			does: func(p *corev1.Pod) { p.Spec.HostNetwork = false },
			says: "spec.hostNetwork is false instead of true",
		},
		"another node": {
			does: func(p *corev1.Pod) { p.Spec.NodeName = "worker-4" },
			says: `spec.nodeName is "worker-4" instead of "worker-3.example.com"`,
		},
		"a sidecar": {
			does: func(p *corev1.Pod) {
				p.Spec.Containers = slices.Insert(p.Spec.Containers, 0, corev1.Container{Name: "spy"})
			},
			says: `spec.containers is ["spy","probe"] instead of ["probe"]`,
		},
		"no container": {
			does: func(p *corev1.Pod) { p.Spec.Containers = nil },
			says: `spec.containers is null instead of ["probe"]`,
		},
		"a mirror": {
			does: func(p *corev1.Pod) { probeOf(p).Image = "mirror.local/probe:1" },
			says: `image is "mirror.local/probe:1" instead of "probe:1"; if that is the same image, specify it with --image`,
		},
		"escapes": {
			does: func(p *corev1.Pod) { probeOf(p).Image = "a\x1b[2Jb\n" + strings.Repeat("c", 500) },
			says: `image is "a\u001b[2Jb\nccc`,
		},
		"a capability dropped by name": {
			does: func(p *corev1.Pod) { c := probeOf(p).SecurityContext.Capabilities; c.Drop = append(c.Drop, "NET_RAW") },
			says: `capabilities.add is ["SYS_ADMIN","SYS_PTRACE"] instead of ["NET_RAW","SYS_ADMIN","SYS_PTRACE"]`,
		},
		"another dropped by name": {does: func(p *corev1.Pod) {
			c := probeOf(p).SecurityContext.Capabilities
			c.Drop = append(c.Drop, "MKNOD")
		}},
		"a priority that kills": {
			does: func(p *corev1.Pod) { p.Spec.Priority = new(int32(2_000_001_000)) },
			says: "spec.priority is 2000001000: the kubelet would evict other pods for it",
		},
		"no run": {
			does: func(p *corev1.Pod) { delete(p.Labels, labelRun) },
			says: "metadata.labels is ",
		},
		"confined, before 1.30": {
			does: func(p *corev1.Pod) {
				probeOf(p).SecurityContext.AppArmorProfile = nil
				p.Annotations[apparmor] = "runtime/default"
			},
			says: "metadata.annotations is ",
		},
		"a profile for the pod of 'sh'": {
			asked: root,
			does: func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				}
			},
			says: `seccompProfile is {"type":"RuntimeDefault"} instead of null`,
		},
		"a device": {
			does: func(p *corev1.Pod) { p.Annotations["cdi.k8s.io/x"] = "vendor.com/device=all" },
			says: `metadata.annotations is ["cdi.k8s.io/x"] instead of null`,
		},
		"a static pod's mirror": {
			does: func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" },
			says: `metadata.annotations is ["kubernetes.io/config.mirror"] instead of null`,
		},
		"a file of the kubelet's elsewhere": {
			does: func(p *corev1.Pod) { probeOf(p).TerminationMessagePath = "/host/etc/machine-id" },
			says: `terminationMessagePath is "/host/etc/machine-id" instead of "/dev/termination-log"`,
		},
		"a token": {
			does: func(p *corev1.Pod) {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "aws-iam-token"})
			},
			says: "aws-iam-token",
		},
	} {
		asked := plain
		if c.asked != nil {
			asked = c.asked
		}
		got := asked.DeepCopy()
		c.does(got)
		what := alteredPod(asked, got)
		if !isSaid(what, c.says) || strings.ContainsAny(what, "\n\x1b") || len(what) > 400 {
			t.Errorf("%s: %q, want %q", name, what, c.says)
		}
	}
	if plain.Annotations[apparmor] != "unconfined" || root.Annotations[apparmor] != "" {
		t.Errorf("before Kubernetes 1.30: %v and %v", plain.Annotations, root.Annotations)
	}
}

// isSaid reports whether the text is exactly the expected one, "" = no text.
func isSaid(what, says string) bool {
	return (what == "") == (says == "") && strings.Contains(what, says)
}

// TestAlteredElsewhere is TestAltered for an ephemeral container and for the clean-up Job.
func TestAlteredElsewhere(t *testing.T) {
	t.Parallel()
	o := options
	o.Calico = &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume("nodeproc", "/proc", "")}}}
	asked := ephemeralFor(o)
	type container = corev1.EphemeralContainer
	if what := alteredEphemeral(asked, o.Node, "1", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"},
		Spec: corev1.PodSpec{
			EphemeralContainers: []container{asked},
		}}); !isSaid(what, `metadata.uid is "2" instead of "1"`) {
		t.Errorf("another pod of the same name: %q", what)
	}
	for says, does := range map[string]func(*corev1.PodSpec, *container){
		"":                             func(*corev1.PodSpec, *container) {},
		"its image is":                 func(_ *corev1.PodSpec, c *container) { c.Image = "x" },
		"privileged is false":          func(_ *corev1.PodSpec, c *container) { c.SecurityContext.Privileged = nil },
		"targetContainerName":          func(_ *corev1.PodSpec, c *container) { c.TargetContainerName = "x" },
		"has no calico-probe-7f3a09c1": func(_ *corev1.PodSpec, c *container) { c.Name = "x" },
		"spec.nodeName":                func(s *corev1.PodSpec, _ *container) { s.NodeName = "x" },
		"spec.hostNetwork":             func(s *corev1.PodSpec, _ *container) { s.HostNetwork = false },
	} {
		spec := corev1.PodSpec{NodeName: o.Node, HostNetwork: true}
		spec.EphemeralContainers = []container{{}, *asked.DeepCopy()} // the first one is foreign
		does(&spec, &spec.EphemeralContainers[1])
		if what := alteredEphemeral(asked, o.Node, "", &corev1.Pod{Spec: spec}); !isSaid(what, says) {
			t.Errorf("%q, want %q", what, says)
		}
	}
	for name, does := range map[string]func(*batchv1.JobSpec){
		"":                           func(s *batchv1.JobSpec) { s.Suspend, s.BackoffLimit = new(false), new(int32(6)) },
		"spec.parallelism":           func(s *batchv1.JobSpec) { s.Parallelism = new(int32(1)) },
		"spec.suspend":               func(s *batchv1.JobSpec) { s.Suspend = new(true) },
		"spec.managedBy":             func(s *batchv1.JobSpec) { s.ManagedBy = new("queue") },
		"spec.activeDeadlineSeconds": func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = nil },
		"spec.ttl":                   func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = nil },
	} {
		got := janitorFor(o)
		does(&got.Spec)
		if what := alteredJob(janitorFor(o), got); !isSaid(what, name) {
			t.Errorf("%s: %q", name, what)
		}
	}
}

// TestRehearsedFirst requires that nothing is created if a dry run is refused or altered. An unsupported dry run must
// not stop the method. The API server is a fake.
func TestRehearsedFirst(t *testing.T) {
	t.Parallel()
	o := options
	o.Calico = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x"}}
	o.Calico.Spec.HostNetwork = true
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(text))
	}
	noDryRun := apierrors.NewBadRequest(`admission webhook "policy" does not support dry run`)
	for name, c := range map[string]struct {
		rehearsal error // nil = an altered object
		made      bool
		want      facts.Reason
	}{
		"altered":     {nil, false, facts.ReasonAdmission},
		"refused":     {forbidden("exceeded quota: none"), false, facts.ReasonQuota},
		"API is busy": {apierrors.NewServiceUnavailable("later"), false, facts.ReasonAPI},
		"no dry run":  {noDryRun, true, facts.ReasonRBAC},
	} {
		for way, open := range map[string]func(*Client) Open{"pod": byPod, "ephemeral": byEphemeral} {
			made := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				err := c.rehearsal
				if r.URL.Query().Get("dryRun") != "All" {
					made = true
					err = forbidden(`User "me" cannot create`)
				}
				if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
					status.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
					w.WriteHeader(int(status.ErrStatus.Code))
					_ = json.NewEncoder(w).Encode(status.ErrStatus)
					return
				}
				_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Pod"}`)
			}))
			inJSON := rest.ContentConfig{ContentType: "application/json"}
			client, err := NewClient(&rest.Config{Host: server.URL, ContentConfig: inJSON})
			if err != nil {
				t.Fatal(err)
			}
			_, err = open(client)(t.Context(), o)
			server.Close()
			if pe, ok := errors.AsType[*PlacementError](err); !ok || pe.Reason != c.want || made != c.made {
				t.Errorf("%s, %s: made %v, %v", name, way, made, err)
			}
		}
	}
}
