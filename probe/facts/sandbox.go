package facts

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Facts of what a pod lacks that the runtime makes no sandbox for, of pods-start and of probe-placed.
const (
	Obstacle   probe.Fact = "obstacle"    // what is in the way: one of the Obstacle words
	ObstacleAt probe.Fact = "obstacle_at" // the image or file that it is about
)

// Words of the fact Obstacle.
const (
	ObstaclePauseImage    = "pause-image"    // the image of sandboxes is not there and cannot be pulled
	ObstacleCgroupDriver  = "cgroup-driver"  // the kubelet and the runtime name cgroups in different ways
	ObstacleResolvConf    = "resolv-conf"    // the file that the kubelet takes DNS servers from cannot be opened
	ObstacleAuthority     = "authority"      // the CNI plugin trusts another CA than the API server's
	ObstacleNotExecutable = "not-executable" // a CNI plugin's program may not be executed
	ObstacleOpenFiles     = "open-files"     // somebody may not open one more file
	ObstacleProcesses     = "processes"      // somebody may not start one more process or thread
	ObstacleSnapshotter   = "snapshotter"    // the runtime lacks what it unpacks images with
	ObstacleCgroups       = "cgroups"        // the kernel makes no more cgroups
	ObstacleSystemd       = "systemd"        // systemd or its bus, which makes the cgroups, does not answer
	ObstacleProxy         = "proxy"          // a proxy answered the CNI plugin in the API server's place
	ObstacleSilence       = "silence"        // the runtime does not answer, and nobody says why
)

// Sandbox is what an event of the reason EventSandbox comes to, or one about a pod's cgroup.
type Sandbox struct {
	Starts   string // StartsAddresses, StartsCNI or StartsSandbox
	Plugin   string // the CNI plugin that refuses
	Obstacle string // "" = none that is known
	At       string
	Message  string // without the words that every such event begins with
}

// EventSandbox is the reason of the kubelet's event about a pod whose sandbox the runtime did not make.
const EventSandbox = "FailedCreatePodSandBox"

// SandboxFailed reads the message of such an event, of the probe's own pod as of any other.
func SandboxFailed(text string) Sandbox {
	text = strings.TrimPrefix(text, "(combined from similar events): ")
	said := sandboxWords.FindString(text)
	s := Sandbox{Starts: StartsSandbox, Message: text[len(said):]}
	if m := pluginOf.FindStringSubmatch(s.Message); m != nil {
		s.Plugin = cmp.Or(m[1], m[2])
	}
	switch {
	case noAddress.MatchString(s.Message):
		s.Starts = StartsAddresses
		return s
	case s.Plugin != "" || networkOf.MatchString(s.Message):
		s.Starts = StartsCNI
	}
	for _, o := range obstacles {
		m := o.words.FindStringSubmatch(s.Message)
		// What the kubelet fails in itself has no code of the runtime's.
		if m == nil || o.of != "" && o.of != s.Starts || o.own && strings.Contains(said, "rpc error") {
			continue
		}
		at := ""
		for _, group := range m[1:] {
			at = cmp.Or(at, strings.TrimRight(group, ":"))
		}
		if o.own && (strings.Contains(at, "/pods/") || strings.HasPrefix(at, "/sys/")) { // its own, of one pod
			continue
		}
		s.Obstacle, s.At = o.is, probe.Quoted(at)
		break
	}
	return s
}

// What these messages are told apart by: containerd 1.x and 2.x, CRI-O and dockershim; for addresses the
// words of Calico's IPAM (libcalico-go, lib/ipam/ipam.go) and of host-local; for cgroups those of runc and CRI-O.
var (
	sandboxWords = regexp.MustCompile(`^Failed (?:to )?create pod sandbox: (rpc error: code = \w+ desc = )?|^unable to ensure pod container exists: `)
	pluginOf     = regexp.MustCompile(`plugin type="([\w.-]+)"|(?:networkPlugin|NetworkPlugin) (cni) failed`)
	networkOf    = regexp.MustCompile(`network for (sandbox|pod)|pod network sandbox|cni plugin not initialized`)
	noAddress    = regexp.MustCompile(`No IPs available in pools|no more free blocks|No more free affine blocks|` +
		`per host block limit|limit of \d+ blocks reached|no configured Calico pools|cannot find a qualified ippool|` +
		`no IP addresses available in range set|Assigned 0 out of`)
)

var obstacles = []struct {
	of, is string
	own    bool // the kubelet's own words, and not the runtime's
	words  *regexp.Regexp
}{
	{is: ObstacleOpenFiles, words: regexp.MustCompile(`too many open files`)},
	{of: StartsSandbox, is: ObstacleCgroups, words: regexp.MustCompile(
		`mkdir /sys/fs/cgroup/\S+: (?:no space left on device|cannot allocate memory)`)},
	{of: StartsSandbox, is: ObstacleSystemd, words: regexp.MustCompile(
		`dbus: connection closed|completion signal from dbus|` +
			`dial unix (?:/var)?/run/(?:systemd/private|dbus/system_bus_socket): connect: `)},
	{is: ObstacleProcesses, words: regexp.MustCompile(
		`(?:fork/exec \S*|clone\d?|pthread_create failed|create new OS thread.*|fork|setns|can't fork): ?.*[Rr]esource temporarily unavailable|` +
			`retry: Resource temporarily unavailable|failed to create new OS thread|fork failed|unable to apply cgroup.*pids`)},
	{of: StartsSandbox, is: ObstacleSnapshotter, words: regexp.MustCompile(
		`snapshotter ([\w.-]+) was not found|snapshotter not loaded: ([\w.-]+)`)},
	{of: StartsSandbox, is: ObstaclePauseImage, words: regexp.MustCompile(
		`(?:failed to get sandbox image|failed to pull image|failed pulling image|pulling sandbox image) "?([^\s"]+)` +
			`|initializing source docker://(\S+)`)},
	{of: StartsSandbox, is: ObstacleCgroupDriver, words: regexp.MustCompile(
		`for systemd cgroups, got|configured with (?:systemd|cgroupfs) cgroup manager, but|cgroup driver: "?\w+"? is different from`)},
	// The kubelet opens no other file for a sandbox than this one and those of its own folder.
	{of: StartsSandbox, is: ObstacleResolvConf, own: true, words: regexp.MustCompile(
		`^(?:[^:/]*: )?open (/\S+): (?:no such file or directory|permission denied|is a directory)$`)},
	{of: StartsSandbox, is: ObstacleSilence, words: regexp.MustCompile(
		`deadline exceeded|is reserved for|dial unix \S+: connect: `)},
	{of: StartsCNI, is: ObstacleNotExecutable, words: regexp.MustCompile(
		`fork/exec (/\S+): permission denied`)},
	// Go's words for a CONNECT that a proxy refuses are the bare words of HTTP; an API server gives a reason.
	{of: StartsCNI, is: ObstacleProxy, words: regexp.MustCompile(
		`Get "?https://\S+: (?:proxyconnect tcp: |(?:Service Unavailable|Forbidden|Bad Gateway|Gateway Time-?out|` +
			`Tunnel Connection Failed|Proxy Authentication Required)(?:$|[,;\]]))`)},
	{of: StartsCNI, is: ObstacleAuthority, words: regexp.MustCompile(
		`plugin type="calico".*x509: certificate signed by unknown authority`)},
}

// On adds to a result what keeps the sandbox from being made.
func (s Sandbox) On(r probe.Result) probe.Result {
	if s.Obstacle != "" {
		r = r.With(Obstacle, s.Obstacle)
	}
	if s.At != "" {
		r = r.With(ObstacleAt, s.At)
	}
	return r
}
