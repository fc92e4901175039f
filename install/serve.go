package install

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serveName is what everything is called that belongs to 'serve' in the cluster. Whoever
// installs it makes the secret of that name, with tokens under the key token, and where
// somebody is only to read another one: Prometheus need not have what starts probes.
const (
	serveName     = "calico-probe-serve"
	serveReadName = serveName + "-read"
)

// ServeUses are what 'serve' does: with probes in pods of its own it needs no right in
// calico-node's namespace but to read.
func ServeUses() []string { return []string{"pod", "serve"} }

const (
	servePort  = 8080
	serveStore = "/var/lib/calico-probe"
	serveToken = "/etc/calico-probe"
	serveRead  = "/etc/calico-probe-read"
	serveUser  = 65532 // the image's
	// A job that may be going on when it is told to stop has 30 seconds, and its probes ten
	// to be removed.
	serveGrace = 60
)

// Serve says what 'serve' runs from and where it keeps its folder.
type Serve struct {
	Image        string // the client's
	ProbeImage   string // of the probes it puts on nodes
	ExternalURL  string // where people reach it, http(s)://HOST[/PATH]; "" = its Service
	StorageClass string // of its volume; "" = the cluster's default
	NoVolume     bool   // its folder goes with its pod
}

// ServeObjects are what 'serve' takes beside Objects: the roles that are not among these,
// which nobody else is bound to, who it is, what it may, and its Deployment, which answers
// at its Service.
func ServeObjects(o Options, s Serve) ([]runtime.Object, error) {
	uses, err := Named(ServeUses()...)
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
	for _, object := range Objects(Options{Uses: uses, Namespace: o.Namespace, CalicoNamespace: o.CalicoNamespace, Subjects: []rbacv1.Subject{me}}) {
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
	if !s.NoVolume {
		claim := corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}
		if s.StorageClass != "" {
			claim.StorageClassName = &s.StorageClass
		}
		out = append(out, &corev1.PersistentVolumeClaim{TypeMeta: core("PersistentVolumeClaim"), ObjectMeta: meta, Spec: claim})
	}
	return append(out,
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), // its folder has one writer
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: selects},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selects}, Spec: servePod(o, s)},
		}},
		&corev1.Service{TypeMeta: core("Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: selects, Ports: []corev1.ServicePort{{Name: "http", Port: servePort, TargetPort: intstr.FromString("http")}},
		}},
	), nil
}

func servePod(o Options, s Serve) corev1.PodSpec {
	namespace, calico := o.Namespace, []string(nil)
	if o.CalicoNamespace != CalicoNamespace { // somebody has said where calico-node is, so no other is believed
		calico = []string{"--calico-namespace", o.CalicoNamespace}
	}
	store := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: serveName}}
	if s.NoVolume {
		store = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	answers := func(path string) *corev1.Probe {
		// A store on a slow volume, and a node at its limit, may take longer than a second.
		return &corev1.Probe{TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}}
	}
	return corev1.PodSpec{
		ServiceAccountName:            serveName,
		TerminationGracePeriodSeconds: new(int64(serveGrace)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(serveUser)), RunAsGroup: new(int64(serveUser)), FSGroup: new(int64(serveUser)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "serve", Image: s.Image,
			Args: append([]string{"serve", "--namespace", namespace, "--via", "pod", "--image", s.ProbeImage, "--store", serveStore,
				"--external-url", cmp.Or(s.ExternalURL, fmt.Sprintf("http://%s.%s.svc:%d", serveName, namespace, servePort)),
				"--token-file", serveToken + "/token", "--read-token-file", serveRead + "/token", "--log-format", "json"}, calico...),
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: servePort}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			LivenessProbe: answers("/healthz"), ReadinessProbe: answers("/readyz"),
			VolumeMounts: []corev1.VolumeMount{
				{Name: "store", MountPath: serveStore}, {Name: "token", MountPath: serveToken, ReadOnly: true}, {Name: "read-token", MountPath: serveRead, ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "store", VolumeSource: store},
			{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: serveName}}},
			{Name: "read-token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: serveReadName, Optional: new(true)}}},
		},
	}
}

func core(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
