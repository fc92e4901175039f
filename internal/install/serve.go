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

// serveName is the name of everything in the cluster that belongs to 'serve'. The administrator creates the Secret with
// that name, which has tokens under the key token, and another Secret with the server's certificate
// (kubernetes.io/tls). An optional third Secret has tokens for read access: Prometheus does not need the right to start
// probes.
const (
	serveName     = "calico-probe-serve"
	serveReadName = serveName + "-read"
	serveTLSName  = serveName + "-tls"
)

// serveUses returns the uses of 'serve'. Its probes have their own pods, so it needs only read access to calico-node's
// namespace.
func serveUses() []string { return []string{"pod", "serve"} }

const (
	servePort = 8080
	// Service meshes detect the protocol by the port's name.
	servePortName = "https"
	serveHealth   = 8081
	serveStore    = "/var/lib/calico-probe"
	serveToken    = "/etc/calico-probe"
	serveRead     = "/etc/calico-probe-read"
	serveTLS      = "/etc/calico-probe-tls"
	serveUser     = 65532 // the user in the image
	// The memory limit, and the lower soft limit for Go's runtime. The difference is for memory that Go does not count. At
	// the soft limit, Go collects garbage instead of growing up to the hard limit.
	serveMemory   = "512Mi"
	serveGoMemory = "400MiB"
	// On termination, a running job gets 30 seconds, and its probes ten to be removed.
	serveGrace = 60
)

// Serve holds the images for 'serve', and which clients may connect to it. Other differences between clusters are
// values of the Helm chart, or an overlay.
type Serve struct {
	Image      string // the client's
	ProbeImage string // the image of the probes that it starts on nodes
	// Admit lists the namespaces and networks (CIDRs) that may connect to it, in addition to its own namespace.
	Admit []string
}

// AlertsFrom is the usual namespace of Alertmanager and Prometheus.
const AlertsFrom = "monitoring"

// ServeObjects returns what 'serve' needs in addition to Objects: its roles, to which no other subject is bound, its
// service account, the bindings, and its Deployment with a Service.
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
		switch b := object.(type) { // use other names than people's bindings, which have the roles' names
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
				Replicas: new(int32(1)), // its volume allows only one writer
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

// policy admits only the named namespaces and networks, and only to the port for alerts. The kubelet's probes always
// pass, because Kubernetes' rules exempt a pod's own node. Egress is not restricted, because a manifest cannot contain
// the addresses of the API server or of a runbook's webhooks.
func (s Serve) policy(selects map[string]string) networkingv1.NetworkPolicySpec {
	from := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	for _, admit := range s.Admit {
		if network, err := netip.ParsePrefix(admit); err == nil {
			from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: network.Masked().String()}})
			continue
		}
		from = append(from, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: admit}, // only the API server sets this label
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
	if o.CalicoNamespace != CalicoNamespace { // the administrator named calico-node's namespace, so do not trust another
		calico = []string{"--calico-namespace", o.CalicoNamespace}
	}
	answers := func(path string) *corev1.Probe {
		at := &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}
		// If the store is on a slow volume, or the node is at its limit, an answer may take more than a second.
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

// serveFiles returns the flags that name files, and the mounts and volumes with these files.
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
