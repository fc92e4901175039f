package logs

import "github.com/calico-probe/calico-probe/probe/lazy"

// A serviceFault identifies a line from one of the node's services that shows a known fault.
type serviceFault struct {
	ID     string       // the value of the fact signature
	Source string       // where such a line was seen, or the source code that writes it
	Match  *lazy.Regexp // the text, without level and time

	Passing bool // the service continues after it: not the reason for its exit if the service names another
	Mild    bool // a healthy service occasionally logs it: it counts only together with other evidence
	Often   bool // while the fault lasts, the service logs it at least every serviceAgain
}

// Signatures of the lines that daemon-log recognises, in addition to those of calico-log.
const (
	FaultSwapOn        = "swap-on"         // the kubelet is configured not to run with swap
	faultCgroupDriver  = "cgroup-driver"   // the kubelet and the runtime use different cgroup drivers
	faultCgroupVersion = "cgroup-version"  // the kubelet is configured not to run with cgroup v1
	faultBadFlag       = "bad-flag"        // the program does not support that argument
	FaultNoKubeconfig  = "no-kubeconfig"   // no kubeconfig and no bootstrap kubeconfig exist
	FaultNoRuntime     = "no-runtime"      // the container runtime is unreachable
	FaultPortTaken     = "port-taken"      // another program is using its address, socket or lock
	faultTooManyFiles  = "too-many-files"  // no file handles or inotify instances are left
	faultPlugin        = "plugin"          // a plugin that the kubelet needs was not loaded
	faultStorage       = "storage"         // the snapshotter or storage driver does not work
	faultNoCNI         = "no-cni"          // no usable CNI configuration exists
	FaultRuntimeDown   = "runtime-down"    // the runtime does not answer the kubelet
	faultPLEG          = "pleg"            // the kubelet's list of containers is too old
	FaultAuthority     = "authority"       // the kubelet does not accept the API server's certificate
	faultStore         = "store"           // the runtime's image store lacks a part of an image
	faultOCI           = "oci"             // runc, or the shim that starts it, does not run
	faultUnmount       = "unmount"         // a pod's volume is in use and cannot be unmounted
	faultEviction      = "eviction"        // pods are being evicted, or will be, because disk space or memory is low
	faultKilled        = "oom-killed"      // OOM-killed by the kernel
	faultNotAllowed    = "not-admitted"    // the API server rejects the node's registration
	FaultRenamed       = "other-node"      // the kubelet's credentials belong to a node name other than the one it uses
	FaultDeadConn      = "dead-connection" // the kubelet keeps using a dead connection to the API server
	FaultState         = "manager-state"   // the saved state of the CPU or memory manager does not match its settings
	faultCgroups       = "cgroups"         // the kubelet cannot create or find the cgroups that it needs
	faultReservation   = "reservation"     // the kubelet reserves more for the system than the node has
	faultNoFile        = "no-file"         // a file that the service's settings name does not exist
	faultBadPEM        = "bad-certificate" // a certificate, key or CA file in the service's settings cannot be used
)

// The parts of the kubelet that write a line: the kubelet's start, and its own calls to the API server. Lines
// about pods may quote text from a tenant.
const (
	kubeletStart = `^(?:run|server|bootstrap|certificate_manager|container_manager_linux|transport)\.go:\d+\] .*`
	kubeletCalls = `^(?:kubelet_node_status|reflector|controller|certificate_manager|bootstrap|run|server)\.go:\d+\] .*`
)

// killedOOM matches systemd's line about a service if one of the service's processes was OOM-killed.
var killedOOM = lazy.New(`^[\w@.-]+\.service: A process of this unit has been killed by the OOM killer`)

// services are tried in order, with the most certain first, and the first match wins.
var services = []*serviceFault{
	{ID: faultKilled, Source: "systemd, unit", Match: killedOOM},
	{ID: FaultSwapOn, Source: "kubelet, container_manager_linux.go", Match: lazy.New(kubeletStart + `(?i:running with swap on is not supported)`)},
	{ID: FaultCertificate, Source: "kubelet, bootstrap.go; crypto/x509",
		Match: lazy.New(kubeletStart + `(?:client certificate in \S+ is expired|certificate has expired or is not yet valid|currently active client certificate has expired)`)},
	{ID: FaultAuthority, Source: "kubelet: registering, lease, reflectors; crypto/x509; kubernetes/kubernetes#40067", Passing: true, Often: true,
		Match: lazy.New(kubeletCalls + `x509: certificate (?:signed by unknown authority|is valid for .{1,200}, not )`)},
	{ID: faultCgroupDriver, Source: "kubelet with dockershim, docker_service.go; kubernetes/kubernetes#43805",
		Match: lazy.New(kubeletStart + `cgroup driver: .{1,40} is different from `)},
	{ID: faultCgroupVersion, Source: "seen: kubelet v1.36.4 on cgroup v1",
		Match: lazy.New(`^(?:run|server)\.go:\d+\] .*configured to not run on a host using cgroup v1`)},
	{ID: faultBadFlag, Source: "seen: kubelet v1.36.4 with an unknown flag; pflag",
		Match: lazy.New(`^(?:run\.go:\d+\] "command failed" err="failed to parse kubelet flag|server\.go:\d+\] .*|Error: )?.{0,30}(?:unknown (?:shorthand )?flag: |flag provided but not defined: )`)},
	{ID: FaultDiskFull, Source: "seen: containerd 2.4.2 on a full disk; errno ENOSPC",
		Match: lazy.New(`^(?:(?:run|server|container_manager_linux)\.go:\d+\] |kubelet\.go:\d+\] "Failed to initialize internal modules" |msg="failed to load plugin" |containerd: |failed to start daemon: |msg="?[Ff]ailed to ).*(?:no space left on device|disk quota exceeded)`)},
	{ID: FaultReadOnly, Source: "errno EROFS",
		Match: lazy.New(`^(?:(?:run|server)\.go:\d+\] |kubelet\.go:\d+\] "Failed to initialize internal modules" |msg="failed to load plugin" |containerd: |failed to start daemon: ).*read-only file system`)},
	{ID: faultTooManyFiles, Source: "seen: containerd without inotify instances; errno EMFILE",
		Match: lazy.New(`^(?:(?:run|server)\.go:\d+\] |kubelet\.go:\d+\] "Failed to start cAdvisor" |msg="failed to load plugin" |containerd: |failed to start daemon: ).*(?:too many open files|no space left on device \(inotify\))`)},
	{ID: faultNoFile, Source: "seen: kubelet v1.36.4 without its configuration or client CA; errno ENOENT",
		Match: lazy.New(`^run\.go:\d+\] "command failed" err="failed to (?:load [Kk]ubelet config file.*|construct kubelet dependencies: .*|run Kubelet: (?:failed to create kubelet: )?(?:unable to load client CA (?:file|provider).*|.{0,80}certificate.*)?)open /\S+: no such file or directory`)},
	{ID: faultBadPEM, Source: "seen: kubelet v1.36.4 with a client CA that is none; crypto/tls; client-go, cert",
		Match: lazy.New(`^run\.go:\d+\] "command failed" .*(?:error loading CA bundle|unable to load client CA (?:file|provider)|file based certificate manager|tls: (?:failed to find|private key does not match|failed to parse)|data does not contain any valid|must be supplied as a pair)`)},
	{ID: faultReservation, Source: "kubelet, node_container_manager_linux.go",
		Match: lazy.New(`^kubelet\.go:\d+\] "?Failed to start ContainerManager.*has a reservation of .* but capacity of `)},
	{ID: FaultBadSetting, Source: "kubelet, kuberuntime_manager.go",
		Match: lazy.New(`^kuberuntime_manager\.go:\d+\] "Failed to register CRI auth plugins"`)},
	{ID: FaultBadSetting, Source: "kubelet, server.go: values that only its start parses",
		Match: lazy.New(`^(?:run|server)\.go:\d+\] .*(?:-reserved value failed to parse|bad --node-ip |invalid configuration: |failed to (?:merge|precedence) kubelet|failed to load kubelet dropin file|require feature gates? |only supported with cgroupv2|unable to acquire file lock)`)},
	{ID: FaultBadSetting, Source: "seen: kubelet v1.36.4 with a configuration that it rejects",
		Match: lazy.New(`^(?:run|server)\.go:\d+\] .*(?:[Ff]ailed to load [Kk]ubelet config file|failed to validate kubelet (?:configuration|flags)|failed to set feature gates|unrecognized feature gate)|^panic: failed to merge global and in-flight KubeletConfiguration`)},
	{ID: FaultBadSetting, Source: "seen: containerd 2.4.2 with a configuration that it rejects",
		Match: lazy.New(`^(?:containerd: (?:failed to (?:load|unmarshal) TOML|expected containerd config version|invalid plugin config|invalid (?:disabled|required) plugin URI|required plugin \S+ not included|root (?:and state )?must be|state must be|unable to parse \S+ into a time duration|grpc plugin has invalid configuration)|msg="Failure unmarshaling TOML")`)},
	{ID: FaultBadSetting, Source: "seen: dockerd 20.10 with a daemon.json that it rejects",
		Match: lazy.New(`^(?:unable to configure the Docker daemon with file |failed to start daemon: (?:Error while setting daemon|invalid))`)},
	{ID: FaultBadSetting, Source: "CRI-O, config.go", Match: lazy.New(`^msg="?(?:validating (?:root|runtime|image|network) config|unable to load config)`)},
	{ID: faultStorage, Source: "seen: containerd 2.4.2 without its snapshotter", Match: lazy.New(`^containerd: load required plugin .*snapshotter`)},
	{ID: faultStorage, Source: "dockerd, daemon.go", Match: lazy.New(`^failed to start daemon: error initializing graphdriver`)},
	{ID: FaultPortTaken, Source: "containerd, server.go; dockerd, daemon.go; kubelet; errno EADDRINUSE",
		Match: lazy.New(`^(?:containerd: |failed to (?:start daemon|load listeners): |(?:run|server)\.go:\d+\] ).*(?:address already in use|failed to get listener for|pid file found, ensure docker is not running|process with PID \d+ is still running)`)},
	{ID: faultPlugin, Source: "seen: containerd 2.4.2; containerd, server.go", Match: lazy.New(`^containerd: load required plugin `)},
	{ID: FaultNoRuntime, Source: "kubelet, kuberuntime and server.go; dockerd",
		Match: lazy.New(`^(?:(?:run|server)\.go:\d+\] .*(?:validate service connection|unable to determine runtime API version|rpc error: code = Un(?:available|implemented)|/run/\S+\.sock: connect: )|failed to start daemon: .*(?:[Ff]ailed to dial|timeout waiting for containerd))`)},
	{ID: FaultNoKubeconfig, Source: "seen: kubelet v1.36.4 without kubelet.conf",
		Match: lazy.New(`^(?:run|server)\.go:\d+\] .*(?:unable to load bootstrap kubeconfig|invalid kubeconfig: )`)},
	{ID: faultPlugin, Source: "seen: containerd 2.4.2, its CRI plugin not loaded",
		Match: lazy.New(`^msg="failed to load plugin" .*id=io\.containerd\.(?:grpc\.v1\.cri|cri\.v1\.\w+)(?: |$)`)},
	{ID: FaultState, Source: "kubelet, kubelet.go; kubernetes/kubernetes#110478",
		Match: lazy.New(`^kubelet\.go:\d+\] "?Failed to start ContainerManager(?:" err="| )start (?:cpu|memory) manager error: `)},
	{ID: faultCgroups, Source: "kubelet, kubelet.go; kubernetes/kubernetes#122955",
		Match: lazy.New(`^kubelet\.go:\d+\] "?Failed to start ContainerManager.*(?:[Cc]group|root container |QOS containers)`)},
	{ID: FaultRenamed, Source: "apiserver, noderestriction and node_authorizer.go; kubelet, kubelet_node_status.go and controller.go", Passing: true, Often: true,
		Match: lazy.New(`^(?:kubelet_node_status|controller)\.go:\d+\] .*(?:is not allowed to modify node|can only access node lease with the same name)`)},
	{ID: FaultDeadConn, Source: "client-go; net/http; kubernetes/kubernetes#87615", Passing: true, Often: true,
		Match: lazy.New(`^(?:kubelet_node_status|controller)\.go:\d+\] .*(?:use of closed network connection|http2: (?:client connection lost|no cached connection was available))`)},
	{ID: FaultUnauthorized, Source: "kubelet with a rejected certificate or token; client-go", Often: true,
		Match: lazy.New(kubeletCalls + `(?:: Unauthorized|the server has asked for the client to provide credentials|Unauthorized")`)},
	{ID: faultNotAllowed, Source: "kubelet, kubelet_node_status.go", Often: true,
		Match: lazy.New(`^kubelet_node_status\.go:\d+\] "Unable to register node with API server" .*is forbidden`)},
	{ID: FaultNoAPI, Source: "kubelet: registering, lease, reflectors; client-go", Passing: true, Often: true,
		Match: lazy.New(kubeletCalls + `(?:dial tcp [^ ]+: (?:i/o timeout|connect: )|dial tcp: lookup |context deadline exceeded|TLS handshake timeout|no such host)`)},
	{ID: FaultRuntimeDown, Source: "kubelet, runtime.go; cri-client, remote_runtime.go", Passing: true, Often: true,
		Match: lazy.New(`^(?:kubelet\.go:\d+\] "Skipping pod synchronization" err="\[?container runtime is down|` +
			`remote_runtime\.go:\d+\] "(?:Status|Version|ListPodSandbox with filter|ListContainers with filter) from runtime service failed" .*code = DeadlineExceeded)`)},
	{ID: faultPLEG, Source: "kubelet, kubelet.go", Passing: true, Often: true,
		Match: lazy.New(`^kubelet\.go:\d+\] "Skipping pod synchronization" err="\[?.*PLEG is not healthy`)},
	{ID: faultNoCNI, Source: "kubelet, kubelet.go; containerd's CRI", Passing: true,
		Match: lazy.New(`^kubelet\.go:\d+\] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady`)},
	{ID: faultStore, Source: "containerd, internal/cri and core/metadata/content.go; containerd/containerd#3401", Passing: true, Mild: true,
		Match: lazy.New(`^msg="(?:RunPodSandbox|CreateContainer|PullImage) .* error=".*(?:failed to get reader from content store|content digest \S+: not found|blob not found|missing parent .{1,150}bucket: not found)`)},
	{ID: faultOCI, Source: "containerd, internal/cri and cmd/containerd-shim-runc-v2/process/init.go", Passing: true, Mild: true,
		Match: lazy.New(`^msg="RunPodSandbox .* error=".*(?:unable to retrieve OCI runtime error|did not terminate succ?essfully|binary not installed|fork/exec \S*(?:runc|shim)\S*: )`)},
	{ID: faultUnmount, Source: "kubelet, nestedpendingoperations.go and operation_generator.go; errno EBUSY", Passing: true, Mild: true,
		Match: lazy.New(`^nestedpendingoperations\.go:\d+\] Operation for .* failed\. No retries permitted .*Error: UnmountVolume\.TearDown failed for volume .*: (?:device or resource busy|target is busy)`)},
	{ID: faultEviction, Source: "kubelet, eviction_manager.go", Passing: true,
		Match: lazy.New(`^eviction_manager\.go:\d+\] "Eviction manager: (?:attempting to reclaim|must evict pod|unexpected error when attempting to reduce)`)},
}

// Rank is how certain a signature is as the reason. A lower rank is more certain.
func (s *serviceFault) Rank() int {
	for i, other := range services {
		if other == s {
			return i
		}
	}
	return len(services)
}

// serviceFaults recognises a line from one of the node's services, or a line from systemd about a service.
func serviceFaults(text string, bySystemd bool) *serviceFault {
	for _, s := range services {
		if s.Match.MatchString(text) && bySystemd == (s.ID == faultKilled) {
			return s
		}
	}
	return nil
}
