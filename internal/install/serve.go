package install

import (
	"fmt"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serveName is what everything is called that belongs to 'serve' in the cluster. The
// administrator who installs it makes the secret of that name, with tokens under the key token, another one with
// the certificate they are sent to (kubernetes.io/tls), and where somebody is only to read a
// third: Prometheus need not have what starts probes.
const (
	serveName     = "calico-probe-serve"
	serveReadName = serveName + "-read"
	serveTLSName  = serveName + "-tls"
)

// serveUses are what 'serve' does: with probes in pods of its own it needs no right in
// calico-node's namespace but to read.
func serveUses() []string { return []string{"pod", "serve"} }

const (
	servePort = 8080
	// Service meshes go by the name of a port.
	servePortName = "https"
	serveHealth   = 8081
	serveStore    = "/var/lib/calico-probe"
	serveToken    = "/etc/calico-probe"
	serveRead     = "/etc/calico-probe-read"
	serveTLS      = "/etc/calico-probe-tls"
	serveUser     = 65532 // the image's
	// The most memory there is, and what Go's runtime keeps below, with the rest for what it
	// does not count: from there on it collects garbage rather than grow into the limit.
	serveMemory   = "512Mi"
	serveGoMemory = "400MiB"
	// A job that may be going on when it is told to stop has 30 seconds, and its probes ten
	// to be removed.
	serveGrace = 60
)

// Serve says what 'serve' runs from and who may connect to it. What else differs from cluster to
// cluster is a value of the Helm chart, or an overlay.
type Serve struct {
	Image      string // the client's
	ProbeImage string // of the probes it puts on nodes
	// Admit are the namespaces and networks (CIDRs) that may connect to it, beside its own namespace.
	Admit []string
}

// AlertsFrom is where Alertmanager and Prometheus usually are.
const AlertsFrom = "monitoring"

// ServeObjects are what 'serve' takes beside Objects: the roles that are not among these,
// which no other subject is bound to, who it is, what it may, and its Deployment, which answers
// at its Service.
func ServeObjects(o Options, s Serve) ([]runtime.Object, error) {
	uses, err := Named(serveUses()...)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: serveName, Namespace: o.Namespace, Labels: labels()}
	me := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: serveName}
	missing := slices.DeleteFunc(slices.Clone(uses), func(u Use) bool {
		return slices.ContainsFunc(o.Uses, func(have Use) bool { return have.Name == u.Name })
	})
	out := Objects(Options{Uses: missing, Namespace: o.Namespace, CalicoNamespace: o.CalicoNamespace, Existing: true})
	out = append(out, &corev1.ServiceAccount{TypeMeta: core("ServiceAccount"), ObjectMeta: meta})
	for _, object := range Objects(Options{
		Uses: uses, Namespace: o.Namespace, CalicoNamespace: o.CalicoNamespace, Subjects: []rbacv1.Subject{me},
	}) {
		switch b := object.(type) { // beside those of people, which have the roles' names
		case *rbacv1.ClusterRoleBinding:
			b.Name = serveName + b.Name[len("calico-probe"):]
			out = append(out, b)
		case *rbacv1.RoleBinding:
			b.Name = serveName + b.Name[len("calico-probe"):]
			out = append(out, b)
		}
	}
	selects := map[string]string{"app.kubernetes.io/component": "serve", "app.kubernetes.io/part-of": "calico-probe"}
	out = append(out, &corev1.PersistentVolumeClaim{TypeMeta: core("PersistentVolumeClaim"), ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}})
	return append(out,
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(1)), // its folder has one writer
				Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
				Selector: &metav1.LabelSelector{MatchLabels: selects},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selects}, Spec: servePod(o, s)},
			}},
		&corev1.Service{TypeMeta: core("Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: selects, Ports: []corev1.ServicePort{
				{Name: servePortName, Port: servePort, TargetPort: intstr.FromString(servePortName)},
			},
		}},
		&networkingv1.NetworkPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
			ObjectMeta: meta, Spec: s.policy(selects),
		},
	), nil
}

// policy lets those in who are admitted, and only where alerts are taken. Whether it lives is
// asked by the kubelet, and by Kubernetes' rules a pod's own node always gets in. What goes out is
// not narrowed: no manifest knows the addresses of the API server, nor where a runbook's webhook is.
func (s Serve) policy(selects map[string]string) networkingv1.NetworkPolicySpec {
	from := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	for _, admit := range s.Admit {
		if network, err := netip.ParsePrefix(admit); err == nil {
			from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: network.Masked().String()}})
			continue
		}
		from = append(from, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: admit}, // which only the API server sets
		}})
	}
	return networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: selects},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: from, Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString(servePortName))}},
		}},
	}
}

func servePod(o Options, s Serve) corev1.PodSpec {
	var calico []string
	if o.CalicoNamespace != CalicoNamespace { // somebody has said where calico-node is, so no other is believed
		calico = []string{"--calico-namespace", o.CalicoNamespace}
	}
	answers := func(path string) *corev1.Probe {
		at := &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}
		// A store on a slow volume, and a node at its limit, may take longer than a second.
		return &corev1.Probe{TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{HTTPGet: at}}
	}
	args, mounts, volumes := serveFiles()
	args = slices.Concat([]string{"serve", "--namespace", o.Namespace, "--via", "pod", "--image", s.ProbeImage,
		"--external-url", fmt.Sprintf("https://%s.%s.svc:%d", serveName, o.Namespace, servePort),
	}, args, []string{"--log-format", "json"}, calico)
	return corev1.PodSpec{
		ServiceAccountName:            serveName,
		TerminationGracePeriodSeconds: new(int64(serveGrace)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(serveUser)), RunAsGroup: new(int64(serveUser)),
			FSGroup:        new(int64(serveUser)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "serve", Image: s.Image, Args: args,
			Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: serveGoMemory}},
			Ports: []corev1.ContainerPort{
				{Name: servePortName, ContainerPort: servePort}, {Name: "health", ContainerPort: serveHealth},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
				},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(serveMemory)},
			},
			LivenessProbe: answers("/healthz"), ReadinessProbe: answers("/readyz"),
			VolumeMounts: mounts,
		}},
		Volumes: volumes,
	}
}

// serveFiles are the flags that name files, and where these come from.
func serveFiles() (args []string, mounts []corev1.VolumeMount, volumes []corev1.Volume) {
	add := func(name, path string, from corev1.VolumeSource) {
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: from.Secret != nil})
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: from})
	}
	secret := func(name string, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: optional}}
	}
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: serveName}
	add("store", serveStore, corev1.VolumeSource{PersistentVolumeClaim: claim})
	add("token", serveToken, secret(serveName, nil))
	add("read-token", serveRead, secret(serveReadName, new(true)))
	add("tls", serveTLS, secret(serveTLSName, nil))
	return []string{
		"--store", serveStore, "--token-file", serveToken + "/token", "--read-token-file", serveRead + "/token",
		"--tls-cert", serveTLS + "/tls.crt", "--tls-key", serveTLS + "/tls.key",
	}, mounts, volumes
}

func core(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
