package facts

import (
	"strings"
	"testing"
)

// TestSandboxFailed has messages of kubelets, containerd 1.x and 2.x, CRI-O and runc.
func TestSandboxFailed(t *testing.T) {
	const began = "Failed to create pod sandbox: rpc error: code = Unknown desc = "
	for text, want := range map[string]Sandbox{
		began + `failed to get sandbox image "registry.k8s.io/pause:3.9": failed to pull image "registry.k8s.io/pause:3.9": dial tcp: i/o timeout`: {
			Obstacle: ObstaclePauseImage, At: "registry.k8s.io/pause:3.9"},
		began + `failed to pull image "hub.example:5000/k8s/pause:3.10": failed to pull and unpack image`: {
			Obstacle: ObstaclePauseImage, At: "hub.example:5000/k8s/pause:3.10"},
		began + `error creating pod sandbox with name "k8s_x": initializing source docker://registry.k8s.io/pause:3.9: pinging container registry`: {
			Obstacle: ObstaclePauseImage, At: "registry.k8s.io/pause:3.9"},
		"(combined from similar events): " + began + `failed to start sandbox: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/besteffort/podX/Y" instead`: {
			Obstacle: obstacleCgroupDriver},
		began + `cri-o configured with systemd cgroup manager, but did not receive slice as parent: /kubepods/besteffort/podX`: {Obstacle: obstacleCgroupDriver},
		"Failed to create pod sandbox: open /run/systemd/resolve/resolv.conf: no such file or directory": {
			Obstacle: ObstacleResolvConf, At: "/run/systemd/resolve/resolv.conf"},
		"Failed to create pod sandbox: open /etc/kubernetes/upstream.conf: no such file or directory": {
			Obstacle: ObstacleResolvConf, At: "/etc/kubernetes/upstream.conf"},
		began + `failed to start sandbox: failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/containerd/ID/log.json: no such file or directory): fork/exec /usr/local/nvidia/toolkit/nvidia-runtime.cdi: no such file or directory`: {
			Obstacle: ObstacleOCI, At: "/usr/local/nvidia/toolkit/nvidia-runtime.cdi"},
		began + `failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: read init-p: connection reset by peer`: {Obstacle: obstacleInit},
		// The runtime's own file, and that of one pod, are not the kubelet's resolv.conf.
		began + "open /run/containerd/x/config.json: no such file or directory":                             {},
		"Failed to create pod sandbox: open /var/lib/kubelet/pods/X/userns: no such file or directory":      {},
		began + "failed to create containerd task: mkdir /run/containerd/x: no space left on device":        {Obstacle: ObstacleSpace, At: "/run/containerd/x"},
		began + "failed to create inotify fd: no space left on device":                                      {},
		"Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded": {Obstacle: ObstacleSilence},
		// The kubelet creates the pod's cgroup itself, and runc those of its containers.
		"unable to ensure pod container exists: failed to create container for [kubepods besteffort podX] : mkdir /sys/fs/cgroup/memory/kubepods/besteffort/podX: cannot allocate memory": {
			Obstacle: obstacleCgroups},
		began + `failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: unable to apply cgroup configuration: mkdir /sys/fs/cgroup/pids/kubepods/besteffort/podX/Y: no space left on device: unknown`: {
			Obstacle: obstacleCgroups},
		"unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : dbus: connection closed by user": {
			Obstacle: obstacleSystemd},
		"unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : Timed out while waiting for StartUnit(kubepods-burstable-podX.slice) completion signal from dbus": {
			Obstacle: obstacleSystemd},
		"unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : open /sys/fs/cgroup/kubepods/cpuset.cpus: no such file or directory": {},
		began + `failed to setup network for sandbox: plugin type="loopback" failed (add): netplugin failed with no error message: fork/exec /opt/cni/bin/loopback: permission denied`: {
			Starts: StartsCNI, Plugin: "loopback", Obstacle: ObstacleNotExecutable, At: "/opt/cni/bin/loopback"},
		began + `failed to setup network for sandbox: plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: clusterinformations.crd.projectcalico.org "default" is forbidden: User "system:serviceaccount:kube-system:calico-cni-plugin" cannot get resource "clusterinformations" in API group "crd.projectcalico.org" at the cluster scope`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: ObstacleRights, At: "kube-system:calico-cni-plugin"},
		began + `failed to setup network for sandbox: plugin type="calico" failed (add): error getting ClusterInformation: Get "https://10.96.0.1:443/x": tls: failed to verify certificate: x509: certificate signed by unknown authority`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: ObstacleAuthority},
		began + `failed to setup network for sandbox: plugin type="calico" failed (add): error parsing pool "team-blau-pool": invalid CIDR address: team-blau-pool`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: ObstaclePool, At: "team-blau-pool"},
		began + `failed to setup network for sandbox "4f5a": plugin type="calico" failed (add): the given pool (10.200.0.0/16) does not exist, or is not enabled`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: ObstaclePool, At: "10.200.0.0/16"},
		began + `failed to setup network for sandbox: plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: ObstacleToken},
		began + `failed to setup network for sandbox: plugin type="calico" failed (add): Internal error occurred: fai ... ling webhook "validation.gatekeeper.sh": failed to call webhook: Post "https://gatekeeper-webhook-service.gatekeeper-system.svc:443/v1/admit?timeout=3s": service "gatekeeper-webhook-service" not found`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: obstacleWebhook, At: "validation.gatekeeper.sh"},
		began + `failed to setup network for sandbox "4f5a": plugin type="calico" failed (add): error getting ClusterInformation: Get "https://10.96.0.1:443/apis/crd.projectcalico.org/v1/clusterinformations/default": Service Unavailable`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: obstacleProxy},
		began + `failed to setup network for sandbox "4f5a": plugin type="calico" failed (add): error getting ClusterInformation: Get "https://10.96.0.1:443/apis/crd.projectcalico.org/v1/clusterinformations/default": proxyconnect tcp: dial tcp 10.9.9.9:3128: i/o timeout`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: obstacleProxy},
		began + `failed to setup network for sandbox "4f5a": plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: clusterinformations.crd.projectcalico.org "default" is forbidden: User "x" cannot get resource`: {
			Starts: StartsCNI, Plugin: "calico"},
		began + `failed to create containerd container: error unpacking image: failed to extract layer sha256:ID: failed to get reader from content store: content digest sha256:ID: not found`:               {Obstacle: ObstacleStore},
		began + `failed to get sandbox image "registry.k8s.io/pause:3.10": failed to pull image "registry.k8s.io/pause:3.10": failed to prepare extraction snapshot "extract-1 sha256:ID": parent: not found`: {Obstacle: ObstacleStore},
		began + `failed to start sandbox: failed to create containerd container: error unpacking image: failed to prepare extraction snapshot "extract-1 sha256:ID": connection error: desc = "transport: Error while dialing: dial unix:///run/soci/soci.sock: timeout"`: {
			Obstacle: obstacleSnapshotter, At: "/run/soci/soci.sock"},
		began + `failed to start sandbox: failed to create containerd container: failed to create snapshot: mkdir /var/lib/containerd/x: input/output error`: {Obstacle: obstacleStoreDisk},
		began + `failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/containerd/x/log.json: no such file or directory): exec: "runc": executable file not found in $PATH: unknown`: {
			Obstacle: ObstacleOCI, At: "runc"},
		began + `failed to start shim: start failed: fork/exec /usr/bin/containerd-shim-runc-v2: exec format error`: {Obstacle: ObstacleOCI, At: "/usr/bin/containerd-shim-runc-v2"},
		began + `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc did not terminate successfully: exit status 127: runc: error while loading shared libraries: libseccomp.so.2: unknown`: {
			Obstacle: ObstacleOCI},
		began + `failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error adding seccomp filter rule for syscall clone3: requested action matches default action of filter`: {
			Obstacle: ObstacleOCI},
		began + `failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: open /proc/sys/net/core/somaxconn: no such file or directory`: {},
		began + `failed to setup network for sandbox "4f5a": plugin type="calico" failed (add): error adding host side routes for interface: cali123, error: route (Ifindex: 9, Dst: 10.244.1.7/32, Scope: link) already exists for an interface other than 'cali123': route (Ifindex: 7, Dst: 10.244.1.7/32, Scope: link, Iface: cali456)`: {
			Starts: StartsCNI, Plugin: "calico", Obstacle: obstacleAddressHeld, At: "10.244.1.7"},
		began + `failed to setup network for sandbox: plugin type="multus" failed (add): x509: certificate signed by unknown authority`: {
			Starts: StartsCNI, Plugin: "multus"},
		began + `failed to setup network for sandbox: plugin type="calico" failed (add): No IPs available in pools: [10.0.0.0/24]`: {
			Starts: StartsAddresses, Plugin: "calico"},
	} {
		got := SandboxFailed(text)
		if want.Starts == "" {
			want.Starts = StartsSandbox
		}
		if want.Message = got.Message; got != want || got.Message == "" || len(got.Message) >= len(text) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestLongIDs expects the IDs of sandboxes to be shortened, but no longer words.
func TestLongIDs(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("3d5c73478ca5c245", 4)
	for text, want := range map[string]string{
		`failed to start sandbox "` + id + `": no such file`: `failed to start sandbox "3d5c73478ca5c": no such file`,
		"image pause@sha256:" + id + " is missing":           "image pause@sha256:" + id + " is missing",
		"image " + id + "aa is missing":                      "image " + id + "aa is missing",
	} {
		if got := SandboxFailed(text).Message; got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestContainerFailed distinguishes the node's faults from a pod's own, whatever name the pod gives its program.
func TestContainerFailed(t *testing.T) {
	t.Parallel()
	const began = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
	for text, want := range map[string]string{
		`failed to create containerd container: error unpacking image: failed to extract layer sha256:ID: failed to get reader from content store: content digest sha256:ID: not found`: ObstacleStore,
		`failed to create containerd container: failed to create snapshot: missing parent "k8s.io/7/sha256:ID" bucket: not found`:                                                       ObstacleStore,
		`failed to get image from containerd "sha256:ID": blob not found: not found`:                                                                                                    ObstacleStore,
		`failed to pull and unpack image "x": failed to extract layer sha256:ID: write /var/lib/containerd/x: structure needs cleaning`:                                                 obstacleStoreDisk,
		began + `runc create failed: unable to start container process: unable to apply cgroup configuration: cannot enter cgroupv2 "/sys/fs/cgroup/x" with domain controllers`:         ObstacleOCI,
		began + `unable to retrieve OCI runtime error (open /x/log.json: no such file or directory): fork/exec /usr/sbin/runc: exec format error`:                                       ObstacleOCI,
		`failed to get runtime: runtime "io.containerd.runc.v2" binary not installed "containerd-shim-runc-v2": file does not exist`:                                                    ObstacleOCI,
		// Faults of the registry, the disk and the pod.
		`failed to pull and unpack image "x": failed to copy: httpReadSeeker: failed open: content at https://hub.example/v2/x not found: not found`:                            "",
		`failed to pull and unpack image "x": failed to prepare extraction snapshot "y": write /var/lib/containerd/x: no space left on device`:                                  ObstacleSpace,
		`failed to create container io: mkdir /run/containerd/io.containerd.grpc.v1.cri/containers/(left out)/io/94: no space left on device`:                                   ObstacleSpace,
		`failed to start container: write /var/lib/kubelet/pods/x/volumes/y/z: no space left on device`:                                                                         "",
		`failed to pull and unpack image "x": failed to unpack image on snapshotter overlayfs: unexpected media type text/html for sha256:ID: not found`:                        "",
		began + `runc create failed: unable to start container process: exec: "app": executable file not found in $PATH`:                                                        "",
		began + `runc create failed: unable to start container process: exec: "runc did not terminate successfully": executable file not found in $PATH`:                        "",
		began + `runc create failed: unable to start container process: exec: "blob not found": stat blob not found: no such file or directory`:                                 "",
		began + `runc create failed: unable to start container process: error during container init: error mounting "/mnt/data" to rootfs at "/data": input/output error`:       "",
		began + `runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?)`:                                                  "",
		began + `runc create failed: unable to start container process: error adding seccomp filter rule for syscall clone3: requested action matches default action of filter`: "",
	} {
		if got := ContainerFailed(text); got.Obstacle != want || got.Starts != StartsContainer {
			t.Errorf("%s: %+v, want %q", text, got, want)
		}
	}
}

// TestContainerFailedByOwner lets a tenant's registry, image and pod imitate messages of the node.
func TestContainerFailedByOwner(t *testing.T) {
	t.Parallel()
	const (
		words  = "too many open files"
		pulls  = `failed to pull and unpack image "x": failed to resolve reference "x": `
		layers = `failed to pull and unpack image "x": failed to extract layer sha256:ID: `
		began  = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
	)
	for _, text := range []string{
		pulls + "unexpected status from HEAD request to https://evil.example/v2/x/manifests/1: 500 " + words,
		pulls + "pull access denied, repository does not exist or may require authorization: server message: " + words,
		pulls + "failed to fetch oauth token: unexpected status: 500 " + words,
		pulls + `failed to do request: Head "https://evil.example/v2/": tls: failed to verify certificate: x509: certificate is valid for ` + words + ", not evil.example",
		`initializing source docker://evil.example/x:1: reading manifest 1 in evil.example/x: unknown: ` + words,
		`initializing source docker://evil.example/x:1: pinging container registry evil.example: received unexpected HTTP status: 500 ` + words,
		`Error response from daemon: toomanyrequests: ` + words,
		`Error response from daemon: Get "https://evil.example/v2/": 503 ` + words,
		layers + `open /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/12/fs/` + words + `/a: not a directory`,
		layers + `mount callback failed on /var/lib/containerd/tmpmounts/containerd-mount12: mkdir /var/lib/containerd/tmpmounts/containerd-mount12/` + words + `/a: not a directory: unknown`,
		layers + `failed to Lchown "/a\" ` + words + ` \"b" for UID 1: invalid argument`,
		`failed to register layer: ApplyLayer exit status 1 stdout:  stderr: mkdir /` + words + `/a: read-only file system`,
		`failed to generate container spec: unable to find user ` + words + `: no matching entries in passwd file`,
		began + `container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: mkdir /` + words + `: read-only file system`,
	} {
		if got := ContainerFailed(text); got.Obstacle != "" {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for text, want := range map[string]string{
		pulls + `failed to do request: Head "https://hub.example/v2/": dial tcp: lookup hub.example on 10.0.0.53:53: dial udp 10.0.0.53:53: socket: ` + words: obstacleOpenFiles,
		layers + `open /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/12/fs/usr/bin/a: ` + words:                                        obstacleOpenFiles,
		layers + `failed to get reader from content store: blob not found: unexpected status: 404`:                                                            ObstacleStore,
		began + `unable to retrieve OCI runtime error (open /x/log.json: no such file or directory): exec: \"runc\": executable file not found in $PATH`:      ObstacleOCI,
	} {
		if got := ContainerFailed(text); got.Obstacle != want {
			t.Errorf("%s: %+v, want %q", text, got, want)
		}
	}
}
