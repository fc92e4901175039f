package facts

import (
	"cmp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/lazy"
)

// Facts in pods-start and probe-placed about what blocks a pod's sandbox.
const (
	Obstacle   probe.Fact = "obstacle"    // what blocks the sandbox: one of the Obstacle words
	ObstacleAt probe.Fact = "obstacle_at" // the image or file in question
)

// Values of the fact Obstacle.
const (
	ObstaclePauseImage    = "pause-image"    // the pause image does not exist and cannot be pulled
	obstacleCgroupDriver  = "cgroup-driver"  // the kubelet and the runtime use different cgroup drivers
	ObstacleResolvConf    = "resolv-conf"    // the file from which the kubelet reads DNS servers cannot be opened
	ObstacleToken         = "token"          // the API server does not accept the CNI plugin's token
	ObstacleRights        = "rights"         // the CNI plugin's account lacks a right
	ObstacleAuthority     = "authority"      // the CNI plugin does not trust the API server's CA
	ObstacleNotExecutable = "not-executable" // a CNI plugin's program is not executable
	obstacleOpenFiles     = "open-files"     // a process reached its limit on open files
	obstacleProcesses     = "processes"      // a limit on processes or threads was reached
	obstacleSnapshotter   = "snapshotter"    // the runtime lacks its snapshotter, which unpacks images
	obstacleCgroups       = "cgroups"        // the kernel does not create any more cgroups
	obstacleSystemd       = "systemd"        // systemd or its bus, which create the cgroups, do not answer
	obstacleProxy         = "proxy"          // a proxy answered the CNI plugin instead of the API server
	ObstacleStore         = "store"          // the runtime's image store lacks a part or cannot read it
	obstacleStoreDisk     = "store-disk"     // the same fault, caused by a disk or file system error
	obstacleInit          = "init"           // a sandbox's first process dies because of a limit
	ObstacleOCI           = "oci"            // runc, or the shim that starts it, itself fails
	obstacleAddressHeld   = "address-held"   // a route to the address that IPAM assigned leads to another interface
	ObstaclePool          = "pool"           // an annotation requests an IP pool that does not exist or is disabled
	obstacleWebhook       = "webhook"        // a webhook that cannot be called blocks the CNI plugin's writes
	ObstacleSpace         = "space"          // a file system on the node has no space for the file in ObstacleAt
	ObstacleSilence       = "silence"        // the runtime does not answer, for an unknown reason
)

// Sandbox is a parsed message. The message comes from an event with the reason EventSandbox, or
// from an event about a pod's cgroup.
type Sandbox struct {
	Starts   string // StartsAddresses, StartsCNI or StartsSandbox
	Plugin   string // the CNI plugin that rejects the request
	Obstacle string // "" = unknown or none
	At       string
	Message  string // without the text with which all such events begin
}

// EventSandbox is the reason in the kubelet's event about a pod for which the runtime did not create a sandbox.
const EventSandbox = "FailedCreatePodSandBox"

// longIDs matches the ID of a container or sandbox. crictl prints and accepts the first 13 of its 64 digits.
var longIDs = lazy.New(`(^|[^\w:/])([0-9a-f]{13})[0-9a-f]{51}\b`)

// SandboxFailed parses the message of an EventSandbox event about any pod.
func SandboxFailed(text string) Sandbox {
	text = strings.TrimPrefix(text, "(combined from similar events): ")
	prefix := sandboxWords.FindString(text)
	s := Sandbox{Starts: StartsSandbox, Message: longIDs.ReplaceAllString(text[len(prefix):], "$1$2")}
	if m := pluginOf.FindStringSubmatch(s.Message); m != nil {
		s.Plugin = cmp.Or(m[1], m[2])
	}
	switch {
	case outsideOfPods(noAddress, s.Message) != nil:
		s.Starts = StartsAddresses
		return s
	case s.Plugin != "" || networkOf.MatchString(s.Message):
		s.Starts = StartsCNI
	}
	s.Obstacle, s.At = obstacleOf(s.Starts, s.Message, !strings.Contains(prefix, "rpc error"))
	return s
}

// OfNode reports whether a message describes a fault that no pod can cause, regardless of the pod's
// spec and annotations.
func (s Sandbox) OfNode() bool {
	switch s.Obstacle {
	case ObstaclePool, ObstacleSilence, obstacleInit:
		return false
	case "":
		return s.Starts == StartsCNI && s.Plugin != pluginMultus && outsideOfPods(nodesOwn, s.Message) != nil
	}
	return s.Plugin != pluginMultus
}

// pluginMultus starts other plugins as configured in a tenant's NetworkAttachmentDefinition.
const pluginMultus = "multus"

// nodesOwn matches messages about the node from the runtime, the kubelet and Calico's plugin. They concern the node's
// plugins, its configuration and its connection to the API server.
var nodesOwn = lazy.New(`failed to find plugin "[\w.-]+" in path|no networks found in /|cni plugin not initialized|` +
	`cni config uninitialized|stat /var/lib/calico/nodename: |error getting ClusterInformation: `)

// podsWords matches the place where a message starts to quote a pod's annotations. Such messages come from Calico's
// cni-plugin (utils.go, k8s.go), libcalico-go and the bandwidth plugin. They all quote input that they could not parse.
var podsWords = lazy.New(`(?i)\bpars(?:e|ing)\b|annotation|invalid (?:ip|cidr|value|format)|\(add\): \\?"|the given pool \(`)

// outsideOfPods returns the first match that does not quote a pod. The match is outside quotes and before podsWords.
func outsideOfPods(find *lazy.Regexp, text string) []string {
	at := find.FindStringSubmatchIndex(text)
	if at == nil {
		return nil
	}
	if pods := podsWords.FindStringIndex(text); pods != nil && at[1] > pods[0] {
		return nil
	}
	if before := strings.ReplaceAll(text[:at[0]], `\"`, ""); strings.Count(before, `"`)%2 != 0 {
		return nil
	}
	return find.FindStringSubmatch(text)
}

// ContainerFailed parses the runtime's message about a container that it could not create or start, or about the
// container's image. Most such faults are in the pod, for example a missing program. Obstacle is then empty.
func ContainerFailed(text string) Sandbox {
	s := Sandbox{Starts: StartsContainer, Message: text}
	s.Obstacle, s.At = obstacleOf(s.Starts, WithoutOwners(text), false)
	return s
}

// WithoutOwners returns the part of a message that comes only from the runtime and the kernel. A tenant chooses the
// image, and therefore also the registry. The part therefore ends before the registry's reply.
func WithoutOwners(text string) string {
	if at := registryWords.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	text = layerFile.ReplaceAllString(processOwn.ReplaceAllString(text, ""), "$1$2")
	return quotedWord.ReplaceAllStringFunc(text, func(word string) string {
		if runtimeName.MatchString(word) {
			return word
		}
		return `""` // chosen by the pod: an image, a command or a path
	})
}

// processOwn matches runc's error about the program in a container, or about its user. layerFile matches a path in
// an image layer, up to the kernel's error. quotedWord may contain a name that the pod chose.
var (
	processOwn = lazy.New(`(?:unable to start container process: (?:exec|chdir|error (?:during|mounting))|` +
		`container init caused: |unable to find (?:user|group) ).*`)
	layerFile  = lazy.New(`(/snapshots/\d+/fs|/containerd-mount\d+|/overlay2?/\w+/diff| stderr: \w+ )/.*(: [^:]*)$`)
	quotedWord = lazy.New(`\\"[^"\\]*\\"|"(?:[^"\\]|\\.)*"`)

	runtimeName = lazy.New(`^\\?"(?:/[\w./-]*/)?(?:docker-)?(?:runc|crun|runsc|youki|kata-runtime|nvidia-container-runtime|containerd-shim[\w.-]*)\\?"$`)
)

// registryWords matches the place where a message starts to quote a registry's reply. The registry chooses the
// phrase after an HTTP status, and the names in its certificate. The patterns come from containerd
// (core/remotes/docker, core/remotes/errors), containers/image (docker/errors.go), Docker and Go. The codes come
// from the OCI distribution specification.
var registryWords = lazy.New(`(?i)unexpected (?:http )?status|unexpected media ?type|unsupported media ?type|` +
	`status ?code|http status|response body|server message|x509: |tls: |malformed|error parsing|invalid character|` +
	`\bdenied\b|insufficient_scope|authorization failed|authentication required|\b[45]\d\d [a-z]|` +
	`\b(?:unknown|denied|unauthorized|toomanyrequests|unavailable|unsupported|too many requests|` +
	`(?:manifest|name|digest|size|tag|range|blob)(?: upload)? (?:invalid|unknown|unverified)): `)

// obstacleOf returns the first obstacle in a message, and the obstacle's subject. The kubelet's own errors do not
// contain a runtime error code.
func obstacleOf(starts, text string, kubelets bool) (is, at string) {
	for _, o := range obstacles {
		m := outsideOfPods(o.words, text)
		if o.is == ObstaclePool { // the quote belongs to these words
			m = o.words.FindStringSubmatch(text)
		}
		fits := o.of == "" || o.of == starts || o.also && starts == StartsContainer
		if m == nil || !fits || o.own && !kubelets || o.not != nil && o.not.MatchString(text) {
			continue
		}
		at := strings.TrimRight(cmp.Or(m[1:]...), `:\"`)
		if o.own && (strings.Contains(at, "/pods/") || strings.HasPrefix(at, "/sys/")) { // the pod's own file
			continue
		}
		return o.is, probe.Quoted(at)
	}
	return "", ""
}

// Patterns that distinguish these messages. They cover containerd 1.x and 2.x, CRI-O and dockershim. For addresses,
// they cover Calico's IPAM (libcalico-go, lib/ipam/ipam.go) and host-local. For cgroups, they cover runc and CRI-O.
var (
	sandboxWords = lazy.New(`^Failed (?:to )?create pod sandbox: (rpc error: code = \w+ desc = )?|^unable to ensure pod container exists: `)
	pluginOf     = lazy.New(`plugin type="([\w.-]+)"|(?:networkPlugin|NetworkPlugin) (cni) failed`)
	networkOf    = lazy.New(`network for (sandbox|pod)|pod network sandbox|cni plugin not initialized`)
	noAddress    = lazy.New(`No IPs available in pools|no more free blocks|No more free affine blocks|` +
		`per host block limit|limit of \d+ blocks reached|no configured Calico pools|cannot find a qualified ippool|` +
		`no IP addresses available in range set|Assigned 0 out of`)
)

var obstacles = []struct {
	of, is string
	also   bool // also in messages about a container
	own    bool // a message from the kubelet itself, not from the runtime
	words  *lazy.Regexp
	not    *lazy.Regexp // if this also matches, the obstacle is a different one
}{
	{is: obstacleOpenFiles, words: lazy.New(`too many open files`)},
	{of: StartsSandbox, also: true, is: obstacleCgroups, words: lazy.New(
		`mkdir /sys/fs/cgroup/\S+: (?:no space left on device|cannot allocate memory)`)},
	{of: StartsSandbox, also: true, is: obstacleSystemd, words: lazy.New(
		`dbus: connection closed|completion signal from dbus|` +
			`dial unix (?:/var)?/run/(?:systemd/private|dbus/system_bus_socket): connect: `)},
	{is: obstacleProcesses, words: lazy.New(
		`(?:fork/exec \S*|clone\d?|pthread_create failed|create new OS thread.*|fork|setns|can't fork): ?.*[Rr]esource temporarily unavailable|` +
			`retry: Resource temporarily unavailable|failed to create new OS thread|fork failed|unable to apply cgroup.*pids`)},
	// runc's first process was killed, or runc could not start its second process.
	{of: StartsSandbox, is: obstacleInit, words: lazy.New(`error during container init: read init-p: connection reset by peer`)},
	{of: StartsSandbox, also: true, is: obstacleSnapshotter, words: lazy.New(
		`snapshotter ([\w.-]+) was not found|snapshotter not loaded: ([\w.-]+)|` +
			// A snapshotter that runs as a separate program does not answer.
			`(?:extraction|create) snapshot.*dial unix:?(?://)?(/[\w./-]+)`)},
	{of: StartsSandbox, also: true, is: obstacleStoreDisk, words: storeDisk},
	{of: StartsSandbox, also: true, is: ObstacleStore, words: storeLacks, not: notTheStore},
	// "no space left" without a file is also the error for inotify watches and other limits.
	{is: ObstacleSpace, words: lazy.New(
		`(?:open|mkdir|mkdirat|mknod|write|symlink|link|rename|copy) (/(?:run|var|etc|opt)(?:/[\w.@-]+)+)[^:]{0,300}: ` +
			`(?:no space left on device|disk quota exceeded)`),
		not: lazy.New(`/volumes/`)}, // a pod's path
	{of: StartsSandbox, is: ObstaclePauseImage, words: lazy.New(
		`(?:failed to get sandbox image|failed to pull image|failed pulling image|pulling sandbox image) "?([^\s"]+)` +
			`|initializing source docker://(\S+)`)},
	{of: StartsSandbox, also: true, is: obstacleCgroupDriver, words: lazy.New(
		`for systemd cgroups, got|configured with (?:systemd|cgroupfs) cgroup manager, but|cgroup driver: "?\w+"? is different from`)},
	{of: StartsSandbox, also: true, is: ObstacleOCI, words: ociFails},
	{of: StartsSandbox, is: ObstacleOCI, words: ociStarts, not: lazy.New(`\bhook\b`)},
	{of: StartsSandbox, is: ObstacleOCI, words: ociSecures},
	// For a sandbox, the kubelet opens only this file and the files in its own folder.
	{of: StartsSandbox, is: ObstacleResolvConf, own: true, words: lazy.New(
		`^(?:[^:/]*: )?open (/\S+): (?:no such file or directory|permission denied|is a directory)$`)},
	{of: StartsSandbox, is: ObstacleSilence, words: lazy.New(
		`deadline exceeded|is reserved for|dial unix \S+: connect: `)},
	{of: StartsCNI, is: obstacleAddressHeld, words: lazy.New(
		`route \(Ifindex: \d+, Dst: ([0-9a-f.:]+)/\d+, Scope: \w+\) already exists for an interface other than`)},
	// Calico's cni-plugin, utils.go, and libcalico-go, ipam.go.
	{of: StartsCNI, is: ObstaclePool, words: lazy.New(
		`error parsing pool \\?"([^"\\]{1,100})|the given pool \(([0-9a-f.:/]+)\) does not exist, or is not enabled`)},
	{of: StartsCNI, is: obstacleWebhook, words: lazy.New(`ling webhook \\?"([\w.-]+)\\?": failed to call webhook: `)},
	{of: StartsCNI, is: ObstacleNotExecutable, words: lazy.New(
		`fork/exec (/\S+): permission denied`)},
	// If a proxy rejects a CONNECT, Go's error contains only the HTTP status text. An API server also gives a reason.
	{of: StartsCNI, is: obstacleProxy, words: lazy.New(
		`Get "?https://\S+: (?:proxyconnect tcp: |(?:Service Unavailable|Forbidden|Bad Gateway|Gateway Time-?out|` +
			`Tunnel Connection Failed|Proxy Authentication Required)(?:$|[,;\]]))`)},
	{of: StartsCNI, is: ObstacleToken, words: lazy.New(
		`plugin type="calico".*connection is unauthorized: Unauthorized`)},
	{of: StartsCNI, is: ObstacleRights, words: lazy.New(
		`plugin type="calico".*is forbidden: User "system:serviceaccount:([a-z0-9.:-]{1,300})" cannot `)},
	{of: StartsCNI, is: ObstacleAuthority, words: lazy.New(
		`plugin type="calico".*x509: certificate signed by unknown authority`)},
}

// Errors about an image store that lacks a part of an image. They come from containerd (core/metadata/content.go,
// plugins/content/local/readerat.go, core/diff/apply, core/unpack/unpacker.go, core/snapshots/storage/bolt.go), from
// containers/storage, and from Linux if it cannot read a disk or file system.
var (
	storeDisk = lazy.New(`(?:failed to (?:extract layer|unpack|prepare|commit|stat parent|create (?:containerd container|snapshot)|get (?:sandbox )?image)|` +
		`/var/lib/(?:containerd|containers|docker|rancher)/).*(?:input/output error|[Ss]tructure needs cleaning|bad message)`)
	storeLacks = lazy.New(`failed to get reader from content store|content digest \S+: not found|blob not found|` +
		`failed to prepare extraction snapshot|missing parent .{0,150}bucket: not found|layer not known|` +
		`readlink /var/lib/containers/storage/overlay\S*: (?:invalid argument|no such file or directory)`)
	notTheStore = lazy.New(`no space left on device|disk quota exceeded|deadline exceeded|context canceled|already exists|dial unix`)
)

// Errors about a runc or shim that does not run. They come from containerd (core/runtime/v2,
// cmd/containerd-shim-runc-v2/process/init.go), from the loader if a library is missing, and from runc if it cannot
// use a cgroup. A sandbox's security profile comes from the node, but a container may have its own profile.
var (
	ociFails = lazy.New(`exec: \\?"((?:/[\w./-]*/)?(?:docker-)?(?:runc|crun|runsc|youki|kata-runtime|nvidia-container-runtime|containerd-shim[\w.-]*))\\?": |` +
		`fork/exec (/[\w./-]*(?:runc|crun|runsc|youki|containerd-shim)[\w.-]*): |binary not installed \\?"([\w./-]+)\\?"|` +
		`(?:runc|crun|runsc|youki) did not terminate succ?essfully|unable to apply cgroup configuration`)
	// For a sandbox, the shim starts the configured OCI runtime, regardless of its name. A hook causes other messages.
	ociStarts = lazy.New(`(?:OCI runtime|shim task|/log\.json: no such file or directory\)).*fork/exec (/[\w./-]+): ` +
		`(?:no such file or directory|permission denied|exec format error)`)
	ociSecures = lazy.New(`seccomp filter|libseccomp|apparmor(?: failed to apply)? profile|` +
		`(?:runc create failed|shim task|OCI runtime create failed).*cannot allocate memory`)
)

// On adds the sandbox's obstacle to a result.
func (s Sandbox) On(r probe.Result) probe.Result {
	if s.Obstacle != "" {
		r = r.With(Obstacle, s.Obstacle)
	}
	if s.At != "" {
		r = r.With(ObstacleAt, s.At)
	}
	return r
}
