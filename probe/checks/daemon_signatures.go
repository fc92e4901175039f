package checks

import "regexp"

// A serviceSignature is a line of a node's service that stands for a known fault.
type serviceSignature struct {
	id     string         // the value of the fact signature
	source string         // where such a line was seen, or the source that writes it
	match  *regexp.Regexp // the text without level and time

	passing bool // the service goes on after it: no reason for its end where it names another itself
	mild    bool // a healthy one writes it now and then: of weight beside what else is seen
	often   bool // it is written at least each serviceAgain for as long as it is so
}

// Signatures of the lines that daemon-log recognises, besides those of calico-log.
const (
	SaysSwapOn        = "swap-on"         // the kubelet is not to run with swap
	saysCgroupDriver  = "cgroup-driver"   // kubelet and runtime use different cgroup drivers
	saysCgroupVersion = "cgroup-version"  // the kubelet is not to run with cgroup v1
	saysBadFlag       = "bad-flag"        // an argument that the program does not know
	SaysNoKubeconfig  = "no-kubeconfig"   // neither a kubeconfig nor one to get one with
	SaysNoRuntime     = "no-runtime"      // the container runtime is not reached
	saysPortTaken     = "port-taken"      // its address, socket or lock belongs to another program
	saysTooManyFiles  = "too-many-files"  // no file handles or inotify instances are left
	SaysPlugin        = "plugin"          // a plugin that the kubelet needs was not loaded
	saysStorage       = "storage"         // the snapshotter or storage driver does not work
	saysNoCNI         = "no-cni"          // no usable CNI configuration
	SaysRuntimeDown   = "runtime-down"    // the kubelet gets no answer from its runtime
	saysPLEG          = "pleg"            // the kubelet's list of containers is too old
	SaysAuthority     = "authority"       // the kubelet does not accept the API server's certificate
	SaysStore         = "store"           // the runtime's store of images lacks a part of one
	SaysOCI           = "oci"             // runc, or the shim that starts it, does not run
	SaysUnmount       = "unmount"         // a pod's volume is in use and cannot be unmounted
	saysEviction      = "eviction"        // pods are evicted, or are to be, for lack of disk or memory
	saysKilled        = "oom-killed"      // by the kernel, for lack of memory
	saysNotAllowed    = "not-admitted"    // the API server does not let the node register
	SaysRenamed       = "other-node"      // its credentials are of another node's name than it uses
	SaysDeadConn      = "dead-connection" // it keeps a connection to the API server that is dead
	SaysState         = "manager-state"   // the saved state of its CPU or memory manager does not fit its settings
	saysCgroups       = "cgroups"         // it cannot make or find the cgroups that it needs
)

// Who writes a line of the kubelet's: its start, and its own calls to the API server. What is written
// about pods may quote what a tenant wrote.
const (
	kubeletStart = `^(?:run|server|bootstrap|certificate_manager|container_manager_linux|transport)\.go:\d+\] .*`
	kubeletCalls = `^(?:kubelet_node_status|reflector|controller|certificate_manager|bootstrap|run|server)\.go:\d+\] .*`
)

// serviceSignatures are asked in order, the surest first; the first that fits is it.
var serviceSignatures = []*serviceSignature{
	{id: saysKilled, source: "systemd, unit", match: killedOOM},
	{id: SaysSwapOn, source: "kubelet, container_manager_linux.go", match: regexp.MustCompile(kubeletStart + `(?i:running with swap on is not supported)`)},
	{id: SaysCertificate, source: "kubelet, bootstrap.go; crypto/x509",
		match: regexp.MustCompile(kubeletStart + `(?:client certificate in \S+ is expired|certificate has expired or is not yet valid)`)},
	{id: SaysAuthority, source: "kubelet: registering, lease, reflectors; crypto/x509; kubernetes/kubernetes#40067", passing: true, often: true,
		match: regexp.MustCompile(kubeletCalls + `x509: certificate (?:signed by unknown authority|is valid for .{1,200}, not )`)},
	{id: saysCgroupDriver, source: "kubelet with dockershim, docker_service.go; kubernetes/kubernetes#43805",
		match: regexp.MustCompile(kubeletStart + `cgroup driver: .{1,40} is different from `)},
	{id: saysCgroupVersion, source: "seen: kubelet v1.36.4 on cgroup v1",
		match: regexp.MustCompile(`^(?:run|server)\.go:\d+\] .*configured to not run on a host using cgroup v1`)},
	{id: saysBadFlag, source: "seen: kubelet v1.36.4 with a flag it does not know; pflag",
		match: regexp.MustCompile(`^(?:run\.go:\d+\] "command failed" err="failed to parse kubelet flag|server\.go:\d+\] .*|Error: )?.{0,30}(?:unknown (?:shorthand )?flag: |flag provided but not defined: )`)},
	{id: SaysDiskFull, source: "seen: containerd 2.4.2 on a full disk; errno ENOSPC",
		match: regexp.MustCompile(`^(?:(?:run|server|container_manager_linux)\.go:\d+\] |msg="failed to load plugin" |containerd: |failed to start daemon: |msg="?[Ff]ailed to ).*(?:no space left on device|disk quota exceeded)`)},
	{id: SaysReadOnly, source: "errno EROFS",
		match: regexp.MustCompile(`^(?:(?:run|server)\.go:\d+\] |msg="failed to load plugin" |containerd: |failed to start daemon: ).*read-only file system`)},
	{id: saysTooManyFiles, source: "seen: containerd without inotify instances; errno EMFILE",
		match: regexp.MustCompile(`^(?:(?:run|server)\.go:\d+\] |msg="failed to load plugin" |containerd: |failed to start daemon: ).*(?:too many open files|no space left on device \(inotify\))`)},
	{id: SaysBadSetting, source: "seen: kubelet v1.36.4 with a configuration that it does not take",
		match: regexp.MustCompile(`^(?:run|server)\.go:\d+\] .*(?:[Ff]ailed to load [Kk]ubelet config file|failed to validate kubelet (?:configuration|flags)|failed to set feature gates|unrecognized feature gate)`)},
	{id: SaysBadSetting, source: "seen: containerd 2.4.2 with a configuration that it does not take",
		match: regexp.MustCompile(`^(?:containerd: (?:failed to (?:load|unmarshal) TOML|expected containerd config version|invalid plugin config)|msg="Failure unmarshaling TOML")`)},
	{id: SaysBadSetting, source: "seen: dockerd 20.10 with a daemon.json that it does not take",
		match: regexp.MustCompile(`^(?:unable to configure the Docker daemon with file |failed to start daemon: (?:Error while setting daemon|invalid))`)},
	{id: SaysBadSetting, source: "CRI-O, config.go", match: regexp.MustCompile(`^msg="?(?:validating (?:root|runtime|image|network) config|unable to load config)`)},
	{id: saysStorage, source: "seen: containerd 2.4.2 without its snapshotter", match: regexp.MustCompile(`^containerd: load required plugin .*snapshotter`)},
	{id: saysStorage, source: "dockerd, daemon.go", match: regexp.MustCompile(`^failed to start daemon: error initializing graphdriver`)},
	{id: saysPortTaken, source: "containerd, server.go; dockerd, daemon.go; kubelet; errno EADDRINUSE",
		match: regexp.MustCompile(`^(?:containerd: |failed to (?:start daemon|load listeners): |(?:run|server)\.go:\d+\] ).*(?:address already in use|failed to get listener for|pid file found, ensure docker is not running|process with PID \d+ is still running)`)},
	{id: SaysPlugin, source: "seen: containerd 2.4.2; containerd, server.go", match: regexp.MustCompile(`^containerd: load required plugin `)},
	{id: SaysNoRuntime, source: "kubelet, kuberuntime and server.go; dockerd",
		match: regexp.MustCompile(`^(?:(?:run|server)\.go:\d+\] .*(?:validate service connection|unable to determine runtime API version|rpc error: code = Un(?:available|implemented)|/run/\S+\.sock: connect: )|failed to start daemon: .*(?:[Ff]ailed to dial|timeout waiting for containerd))`)},
	{id: SaysNoKubeconfig, source: "seen: kubelet v1.36.4 without kubelet.conf",
		match: regexp.MustCompile(`^(?:run|server)\.go:\d+\] .*(?:unable to load bootstrap kubeconfig|invalid kubeconfig: )`)},
	{id: SaysPlugin, source: "seen: containerd 2.4.2, its CRI plugin not loaded",
		match: regexp.MustCompile(`^msg="failed to load plugin" .*id=io\.containerd\.(?:grpc\.v1\.cri|cri\.v1\.\w+)(?: |$)`)},
	{id: SaysState, source: "kubelet, kubelet.go; kubernetes/kubernetes#110478",
		match: regexp.MustCompile(`^kubelet\.go:\d+\] "?Failed to start ContainerManager(?:" err="| )start (?:cpu|memory) manager error: `)},
	{id: saysCgroups, source: "kubelet, kubelet.go; kubernetes/kubernetes#122955",
		match: regexp.MustCompile(`^kubelet\.go:\d+\] "?Failed to start ContainerManager.*(?:[Cc]group|root container |QOS containers)`)},
	{id: SaysRenamed, source: "apiserver, noderestriction and node_authorizer.go; kubelet, kubelet_node_status.go and controller.go", passing: true, often: true,
		match: regexp.MustCompile(`^(?:kubelet_node_status|controller)\.go:\d+\] .*(?:is not allowed to modify node|can only access node lease with the same name)`)},
	{id: SaysDeadConn, source: "client-go; net/http; kubernetes/kubernetes#87615", passing: true, often: true,
		match: regexp.MustCompile(`^(?:kubelet_node_status|controller)\.go:\d+\] .*(?:use of closed network connection|http2: (?:client connection lost|no cached connection was available))`)},
	{id: SaysUnauthorized, source: "kubelet with a certificate or token that is refused; client-go", often: true,
		match: regexp.MustCompile(kubeletCalls + `(?:: Unauthorized|the server has asked for the client to provide credentials|Unauthorized")`)},
	{id: saysNotAllowed, source: "kubelet, kubelet_node_status.go", often: true,
		match: regexp.MustCompile(`^kubelet_node_status\.go:\d+\] "Unable to register node with API server" .*is forbidden`)},
	{id: SaysNoAPI, source: "kubelet: registering, lease, reflectors; client-go", passing: true, often: true,
		match: regexp.MustCompile(kubeletCalls + `(?:dial tcp [^ ]+: (?:i/o timeout|connect: )|dial tcp: lookup |context deadline exceeded|TLS handshake timeout|no such host)`)},
	{id: SaysRuntimeDown, source: "kubelet, runtime.go; cri-client, remote_runtime.go", passing: true, often: true,
		match: regexp.MustCompile(`^(?:kubelet\.go:\d+\] "Skipping pod synchronization" err="\[?container runtime is down|` +
			`remote_runtime\.go:\d+\] "(?:Status|Version|ListPodSandbox with filter|ListContainers with filter) from runtime service failed" .*code = DeadlineExceeded)`)},
	{id: saysPLEG, source: "kubelet, kubelet.go", passing: true, often: true,
		match: regexp.MustCompile(`^kubelet\.go:\d+\] "Skipping pod synchronization" err="\[?.*PLEG is not healthy`)},
	{id: saysNoCNI, source: "kubelet, kubelet.go; containerd's CRI", passing: true,
		match: regexp.MustCompile(`^kubelet\.go:\d+\] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady`)},
	{id: SaysStore, source: "containerd, internal/cri and core/metadata/content.go; containerd/containerd#3401", passing: true, mild: true,
		match: regexp.MustCompile(`^msg="(?:RunPodSandbox|CreateContainer|PullImage) .* error=".*(?:failed to get reader from content store|content digest \S+: not found|blob not found|missing parent .{1,150}bucket: not found)`)},
	{id: SaysOCI, source: "containerd, internal/cri and cmd/containerd-shim-runc-v2/process/init.go", passing: true, mild: true,
		match: regexp.MustCompile(`^msg="RunPodSandbox .* error=".*(?:unable to retrieve OCI runtime error|did not terminate succ?essfully|binary not installed|fork/exec \S*(?:runc|shim)\S*: )`)},
	{id: SaysUnmount, source: "kubelet, nestedpendingoperations.go and operation_generator.go; errno EBUSY", passing: true, mild: true,
		match: regexp.MustCompile(`^nestedpendingoperations\.go:\d+\] Operation for .* failed\. No retries permitted .*Error: UnmountVolume\.TearDown failed for volume .*: (?:device or resource busy|target is busy)`)},
	{id: saysEviction, source: "kubelet, eviction_manager.go", passing: true,
		match: regexp.MustCompile(`^eviction_manager\.go:\d+\] "Eviction manager: (?:attempting to reclaim|must evict pod|unexpected error when attempting to reduce)`)},
}

// rank is how sure a signature is of being the reason: the smaller the surer.
func (s *serviceSignature) rank() int {
	for i, other := range serviceSignatures {
		if other == s {
			return i
		}
	}
	return len(serviceSignatures)
}

// serviceSignatureOf recognises a line by who wrote it and what. An information is none, and neither
// is what a service of which no more is known than a line without a level.
func serviceSignatureOf(it serviceLine) *serviceSignature {
	if !it.About && !it.final && it.level < levelWarning {
		return nil
	}
	for _, s := range serviceSignatures {
		if s.match.MatchString(it.Text) && (it.About == (s.id == saysKilled)) {
			return s
		}
	}
	return nil
}
