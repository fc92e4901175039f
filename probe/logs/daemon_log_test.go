package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/journal"
	"github.com/calico-probe/calico-probe/probe/must"
)

// Lines of kubelet v1.36.4, containerd 2.4.2 and dockerd 20.10 when they exit at start, without klog's time and
// process.
const (
	kubeletFlag    = `run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --no-such-flag"`
	kubeletField   = `run.go:72] "command failed" err="failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: failed to load Kubelet config file /var/lib/kubelet/config.yaml, error failed to decode: json: cannot unmarshal string into Go struct field KubeletConfiguration.clusterDNS of type []string"`
	kubeletCgroup1 = `run.go:72] "command failed" err="failed to validate kubelet configuration, error: kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release, path: &TypeMeta{Kind:,APIVersion:,}"`
	kubeletNoBoot  = `run.go:72] "command failed" err="failed to run Kubelet: unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory"`
	kubeletNoConf  = `run.go:72] "command failed" err="failed to load kubelet config file, path: /etc/k.yaml, error: failed to load Kubelet config file /etc/k.yaml, error failed to read kubelet config file \"/etc/k.yaml\", error: open /etc/k.yaml: no such file or directory"`
	kubeletNoCA    = `run.go:72] "command failed" err="failed to run Kubelet: open /etc/kubernetes/none.crt: no such file or directory"`
	kubeletBadCA   = `run.go:72] "command failed" err="failed to run Kubelet: error loading CA bundle for \"client-ca-bundle::/etc/junk.pem\": data does not contain any valid RSA or ECDSA certificates"`
	containerdDup  = `containerd: failed to unmarshal TOML at row 3 column 2: toml: table io.containerd.cri.v1.runtime already exists`
	containerdURI  = `containerd: failed to load TOML from /etc/containerd/config.toml: invalid disabled plugin URI "cri" expect io.containerd.x.vx`
	containerdTOML = `containerd: failed to unmarshal TOML at row 2 column 9: toml: expected ']' to close table name`
	containerdFull = `time="2026-11-22T23:06:38.682760604Z" level=warning msg="failed to load plugin" error="unable to load CRI image service plugin dependency: write /mnt/r/io.containerd.metadata.v1.bolt/meta.db: no space left on device" id=io.containerd.grpc.v1.cri type=io.containerd.grpc.v1`
	containerdSnap = `containerd: load required plugin io.containerd.grpc.v1.cri: unable to load CRI image service plugin dependency: snapshotter "overlayfs" not found: not found`
	containerdCRI  = `time="2026-11-22T23:06:51.816975251Z" level=warning msg="failed to load plugin" error="unable to load CRI image service plugin dependency: snapshotter \"overlayfs\" not found: not found" id=io.containerd.grpc.v1.cri type=io.containerd.grpc.v1`
	containerdBlob = `time="2026-11-22T23:06:51.816975251Z" level=error msg="CreateContainer within sandbox \"dd4491\" for &ContainerMetadata{Name:app,Attempt:1,} failed" error="rpc error: code = NotFound desc = failed to create containerd container: error unpacking image: failed to extract layer sha256:02: failed to get reader from content store: content digest sha256:69: not found"`
	containerdBind = `containerd: failed to get listener for main ttrpc endpoint: mkdir /proc/self/nope: no such file or directory`
	dockerdJSON    = `unable to configure the Docker daemon with file /etc/docker/daemon.json: invalid character '}' looking for beginning of value`
)

// Lines from their sources.
const (
	kubeletExpired = `bootstrap.go:267] "Unhandled Error" err="part of the existing bootstrap client certificate in /etc/kubernetes/kubelet.conf is expired: 2026-01-01 00:00:00 +0000 UTC"`
	kubeletNoAPI   = `kubelet_node_status.go:107] "Unable to register node with API server" err="Post \"https://10.0.0.1:6443/api/v1/nodes\": dial tcp 10.0.0.1:6443: connect: connection refused" node="a"`
	kubeletBusy    = `nestedpendingoperations.go:348] Operation for "{volumeName:kubernetes.io/empty-dir/x podName:x nodeName:}" failed. No retries permitted until 2026-11-23 00:00:00 (durationBeforeRetry 500ms). Error: UnmountVolume.TearDown failed for volume "data" (UniqueName: "kubernetes.io/empty-dir/x") pod "x" (UID: "x") : unlinkat /var/lib/kubelet/pods/x/volumes/y: device or resource busy`
	kubeletPod     = `pod_workers.go:1324] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"x\" with ErrImagePull: \"dial tcp 10.0.0.9:443: i/o timeout: running with swap on is not supported\"" pod="prod/x"`
	kubeletYoung   = `kubelet.go:2412] "Skipping pod synchronization" err="[container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]"`
	kubeletKept    = `kubelet.go:1392] "Failed to start ContainerManager" err="start cpu manager error: could not restore state from checkpoint: configured policy \"static\" differs from state checkpoint policy \"none\", please drain this node and delete the CPU manager checkpoint file \"/var/lib/kubelet/cpu_manager_state\" before restarting Kubelet"`
	kubeletMemory  = `kubelet.go:1703] "Failed to start ContainerManager" err="system validation failed - Following Cgroup subsystem not mounted: [memory]"`
	kubeletPort    = `server.go:209] "Failed to listen and serve" err="listen tcp 0.0.0.0:10250: bind: address already in use"`
	kubeletMuch    = `kubelet.go:1821] "Failed to start ContainerManager" err="invalid Node Allocatable configuration. Resource \"memory\" has a reservation of {{30064771072 0} {<nil>}  BinarySI} but capacity of {{25276502016 0} {<nil>}  BinarySI}. Expected capacity >= reservation."`
	kubeletNotify  = `kubelet.go:1804] "Failed to start cAdvisor" err="inotify_init: too many open files"`
	kubeletGate    = `panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: unrecognized feature gate: OldGate`
	kubeletPlugins = `kuberuntime_manager.go:315] "Failed to register CRI auth plugins" err="plugin binary directory /usr/libexec/x did not exist"`
	kubeletGone    = `transport.go:130] "The currently active client certificate has expired and the server is responsive, exiting."`
	kubeletWSL     = `kubelet.go:1643] "Failed to start ContainerManager" err="system validation failed - wrong number of fields (expected 6, got 7)"`
)

// TestServiceLines judges the last lines of a service. A line is "SECONDS PROCESS LEVEL TEXT" before now; systemd is
// process 1, and "-" is no klog level.
func TestServiceLines(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		lines     []string
		status    probe.Status
		signature string
		says      string
	}{
		"a flag": {[]string{"9 7 I server.go:532] started", "8 7 E " + kubeletFlag, "8 1 - " + checktest.Exited},
			probe.Fail, faultBadFlag, "it exited with: run.go:72] \"command failed\""},
		"the CPU manager's state": {[]string{"9 7 E " + kubeletNoAPI, "9 7 E " + kubeletYoung,
			"8 7 E " + kubeletKept, "8 1 - " + checktest.Exited},
			probe.Fail, FaultState, "start cpu manager error"},
		"a line of a service that goes on, after the last": {[]string{"8 7 E " + kubeletKept, "8 7 E " + kubeletNoAPI, "8 1 - " + checktest.Exited},
			probe.Fail, FaultState, "start cpu manager error"},
		"no memory cgroup": {[]string{"9 7 E " + kubeletNoAPI, "8 7 E " + kubeletMemory, "8 1 - " + checktest.Exited},
			probe.Fail, faultCgroups, "not mounted"},
		"a last line that is not known": {[]string{"9 7 E " + kubeletYoung, "9 7 E " + kubeletNoAPI, "8 7 E " + kubeletWSL,
			"8 1 - " + checktest.Exited},
			probe.Fail, "", "wrong number of fields"},
		"two that are not known: the last": {[]string{"9 7 E " + checktest.KubeletStalled, "9 7 E x.go:1] first",
			"8 7 E " + kubeletWSL, "8 1 - " + checktest.Exited}, probe.Fail, "", "wrong number of fields"},
		"it has just started": {[]string{"9 7 I server.go:532] started", "8 7 E " + kubeletYoung, "7 7 I x.go:1] a"},
			probe.OK, "", "running, no error"},
		"it has just been started anew": {[]string{"400 6 I server.go:532] started", "8 7 E " + kubeletYoung,
			"7 7 I x.go:1] a"},
			probe.OK, "", "running, no error"},
		"it does not come up": {[]string{"90 7 I server.go:532] started", "89 7 E " + kubeletYoung,
			"9 7 E " + checktest.KubeletStalled},
			probe.Warn, faultPLEG, "yet to be successful"},
		"again and again": {[]string{"30 6 E " + kubeletField, "30 1 - " + checktest.Exited,
			"9 7 E " + kubeletField, "8 1 - " + checktest.Exited},
			probe.Fail, FaultBadSetting, "exited repeatedly"},
		"its port": {[]string{"9 7 E " + kubeletNoAPI, "8 7 E " + kubeletPort}, probe.Fail, FaultPortTaken, "0.0.0.0:10250"},
		"too much reserved": {[]string{"8 7 E " + kubeletMuch, "8 1 - " + checktest.Exited}, probe.Fail, faultReservation,
			"but capacity of"},
		"no inotify":       {[]string{"8 7 E " + kubeletNotify}, probe.Fail, faultTooManyFiles, "inotify"},
		"no plugins":       {[]string{"8 7 E " + kubeletPlugins}, probe.Fail, FaultBadSetting, "did not exist"},
		"expired while up": {[]string{"8 7 E " + kubeletGone}, probe.Fail, FaultCertificate, "has expired"},
		"no settings":      {[]string{"8 7 E " + kubeletNoConf}, probe.Fail, faultNoFile, "no such file"},
		"no client CA":     {[]string{"8 7 E " + kubeletNoCA}, probe.Fail, faultNoFile, "none.crt"},
		"a bad client CA":  {[]string{"8 7 E " + kubeletBadCA}, probe.Fail, faultBadPEM, "client-ca-bundle"},
		"an old gate":      {[]string{"8 7 - " + kubeletGate}, probe.Fail, FaultBadSetting, "OldGate"},
		"a table twice":    {[]string{"8 7 - " + containerdDup}, probe.Fail, FaultBadSetting, "already exists"},
		"a plugin's URI":   {[]string{"8 7 - " + containerdURI}, probe.Fail, FaultBadSetting, "plugin URI"},
		"cgroup v1":        {[]string{"8 7 E " + kubeletCgroup1}, probe.Fail, faultCgroupVersion, "cgroup v1"},
		"swap": {[]string{"8 7 E " + checktest.KubeletSwap, "8 1 - " + checktest.Exited}, probe.Fail, FaultSwapOn,
			"swap on"},
		"before klog's form": {[]string{`8 7 F server.go:274] failed to run Kubelet: Running with swap on is not supported, please disable swap! or set --fail-swap-on flag to false.`},
			probe.Fail, FaultSwapOn, "swap"},
		"a cgroup driver": {[]string{`8 7 E server.go:302] "Failed to run kubelet" err="failed to run Kubelet: misconfiguration: kubelet cgroup driver: \"systemd\" is different from docker cgroup driver: \"cgroupfs\""`},
			probe.Fail, faultCgroupDriver, "different"},
		"its certificate": {[]string{"9 7 E " + kubeletExpired, "8 7 E " + kubeletNoBoot, "8 1 - " + checktest.Exited},
			probe.Fail, FaultCertificate, "is expired"},
		"no bootstrap": {[]string{"8 7 E " + kubeletNoBoot, "8 1 - " + checktest.Exited},
			probe.Fail, FaultNoKubeconfig, "bootstrap"},
		"systemd heard first": {[]string{"9 7 I server.go:532] started", "8 1 - " + checktest.Exited,
			"8 7 E " + checktest.KubeletSwap},
			probe.Fail, FaultSwapOn, "it exited with"},
		"killed for memory": {[]string{"9 7 I x.go:1] a", "8 1 - kubelet.service: A process of this unit has been killed by the OOM killer.", "8 1 - kubelet.service: Main process exited, code=killed, status=9/KILL"},
			probe.Fail, faultKilled, "OOM killer"},
		"begun anew": {[]string{"9 7 E " + kubeletFlag, "9 1 - " + checktest.Exited, "1 8 I server.go:532] started"},
			probe.Warn, faultBadFlag, "a new run has just started"},
		"started anew by somebody": {[]string{"90 7 E " + kubeletNoAPI, "60 8 I server.go:532] started", "1 8 I x.go:1] a"},
			probe.OK, "", "running, no error"},
		"mended since": {[]string{"300 7 E " + kubeletFlag, "300 1 - " + checktest.Exited,
			"200 8 I server.go:532] started", "1 8 I x.go:1] a"},
			probe.OK, "", "running, no error"},
		"an old reason is none": {[]string{"300 7 E " + kubeletExpired, "100 7 I x.go:1] a", "8 7 F x.go:9] something odd"},
			probe.Fail, "", "something odd"},
		"stopped": {[]string{"60 7 I x.go:1] a", "9 1 - Stopping kubelet: The Kubernetes Node Agent...", "8 1 - kubelet.service: Deactivated successfully."},
			probe.Info, "", "on purpose"},
		"stopped with an error": {[]string{"60 7 E " + kubeletNoAPI, "9 1 - Stopping kubelet: The Kubernetes Node Agent...", "8 1 - kubelet.service: Main process exited, code=killed, status=9/KILL"},
			probe.Info, "", "on purpose"},
		"no way to the API": {[]string{"25 7 E " + kubeletNoAPI, "1 7 I x.go:1] a"},
			probe.Warn, FaultNoAPI, "running, and logs"},
		"reached again": {[]string{"40 7 E " + kubeletNoAPI, "1 7 I x.go:1] a"},
			probe.Info, FaultNoAPI, "its last error"},
		"not much since": {[]string{"100 7 E " + kubeletNoAPI, "75 7 I x.go:1] a"},
			probe.Warn, FaultNoAPI, "running, and logs"},
		"a while ago": {[]string{"600 7 E " + kubeletNoAPI, "1 7 I x.go:1] a"},
			probe.Info, FaultNoAPI, "its last error"},
		"a node of another name": {[]string{`9 7 E kubelet_node_status.go:94] "Unable to register node with API server" err="nodes \"m01\" is forbidden: node \"minikube\" is not allowed to modify node \"m01\"" node="m01"`},
			probe.Warn, FaultRenamed, "not allowed to modify"},
		"a lease of another name": {[]string{`9 7 E controller.go:146] "Failed to ensure lease exists, will retry" err="leases.coordination.k8s.io \"node-master\" is forbidden: User \"system:node:hostmaster\" cannot get resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"kube-node-lease\": can only access node lease with the same name as the requesting node" interval="7s"`},
			probe.Warn, FaultRenamed, "node lease"},
		"no right to register": {[]string{`9 7 E kubelet_node_status.go:94] "Unable to register node with API server" err="nodes is forbidden: User \"system:anonymous\" cannot create resource \"nodes\" in API group \"\" at the cluster scope" node="a"`},
			probe.Warn, faultNotAllowed, "cannot create"},
		"a dead connection": {[]string{`9 7 E kubelet_node_status.go:402] Error updating node status, will retry: error getting node "a": Get https://10.0.0.1:6443/api/v1/nodes/a?timeout=10s: write tcp 10.0.0.2:49402->10.0.0.1:6443: use of closed network connection`},
			probe.Warn, FaultDeadConn, "closed network"},
		"no network": {[]string{`9 7 E kubelet.go:3011] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"`},
			probe.Warn, faultNoCNI, "not ready"},
		"PLEG": {[]string{`9 7 E kubelet.go:2448] "Skipping pod synchronization" err="PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s"`},
			probe.Warn, faultPLEG, "PLEG"},
		"another CA": {[]string{`9 7 E kubelet_node_status.go:107] "Unable to register node with API server" err="Post \"https://10.0.0.1:6443/api/v1/nodes\": tls: failed to verify certificate: x509: certificate signed by unknown authority" node="a"`},
			probe.Warn, FaultAuthority, "running, and logs"},
		"a registry's CA": {[]string{`9 7 E pod_workers.go:1324] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"x\" with ErrImagePull: \"x509: certificate signed by unknown authority\"" pod="prod/x"`},
			probe.Info, "", "its last error"},
		"a volume in use": {[]string{"9 7 E " + kubeletBusy},
			probe.Info, faultUnmount, "running, and logs"},
		"a volume in use, and worse": {[]string{"9 7 E " + kubeletNoAPI, "8 7 E " + kubeletBusy},
			probe.Warn, FaultNoAPI, "running, and logs"},
		"a volume that is not read": {[]string{`9 7 E nestedpendingoperations.go:348] Operation for "{volumeName:kubernetes.io/nfs/x}" failed. No retries permitted until 2026-11-23 00:00:00 (durationBeforeRetry 500ms). Error: MountVolume.SetUp failed for volume "device or resource busy": permission denied`},
			probe.Info, "", "last error"},
		"a runtime that is down": {[]string{`9 7 E remote_runtime.go:801] "Status from runtime service failed" err="rpc error: code = DeadlineExceeded desc = context deadline exceeded"`,
			`3 7 E kubelet.go:2510] "Skipping pod synchronization" err="[container runtime is down, PLEG is not healthy: pleg was last seen active 3m9s ago; threshold is 3m0s]"`},
			probe.Warn, FaultRuntimeDown, "container runtime is down"},
		"eviction": {[]string{`9 7 W eviction_manager.go:376] "Eviction manager: attempting to reclaim" resourceName="ephemeral-storage"`},
			probe.Warn, faultEviction, "reclaim"},
		"what a pod says": {[]string{"9 7 E " + kubeletPod}, probe.Info, "", "its last error"},
		"the same as it ends": {[]string{"9 7 E " + kubeletPod, "8 1 - " + checktest.Exited}, probe.Fail, "",
			"Error syncing"},
		"an information is none": {[]string{`9 7 I kubelet.go:1] "Skipping pod synchronization" err="PLEG is not healthy"`},
			probe.OK, "", "running, no error"},
		"bad TOML": {[]string{"9 7 - " + containerdTOML, "9 1 - containerd.service: Main process exited, code=exited, status=1/FAILURE"},
			probe.Fail, FaultBadSetting, "TOML"},
		"a full disk": {[]string{"9 7 - " + containerdFull, "8 1 - containerd.service: Main process exited, code=exited, status=1/FAILURE"},
			probe.Fail, FaultDiskFull, "no space"},
		"no snapshotter": {[]string{"9 7 - " + containerdSnap}, probe.Fail, faultStorage, "overlayfs"},
		"its socket":     {[]string{"9 7 - " + containerdBind}, probe.Fail, FaultPortTaken, "listener"},
		"without CRI": {[]string{"9 7 - " + containerdCRI, `8 7 - time="x" level=info msg="containerd successfully booted"`},
			probe.Warn, faultPlugin, "failed to load plugin"},
		"a store that lacks a blob": {[]string{"9 7 - " + containerdBlob}, probe.Info, faultStore, "running, and logs"},
		"a registry that lacks one": {[]string{`9 7 - time="x" level=error msg="PullImage \"x\" failed" error="failed to pull and unpack image \"x\": failed to copy: httpReadSeeker: failed open: content at https://hub.example/x not found: not found"`},
			probe.Info, "", "its last error"},
		"killed after such a line": {[]string{"9 7 - " + containerdBlob, "8 1 - containerd.service: Main process exited, code=killed, status=9/KILL"},
			probe.Fail, "", "status=9/KILL"},
		"no runc": {[]string{`9 7 - time="x" level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:x,} failed, error" error="rpc error: code = Unknown desc = failed to start sandbox: failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /x/log.json: no such file or directory): exec: \"runc\": executable file not found in $PATH"`},
			probe.Info, faultOCI, "running, and logs"},
		"a plugin nobody needs": {[]string{`9 7 - time="x" level=warning msg="failed to load plugin" error="no space" id=io.containerd.snapshotter.v1.zfs type=io.containerd.snapshotter.v1`},
			probe.OK, "", "running, no error"},
		"daemon.json": {[]string{"9 7 - " + dockerdJSON}, probe.Fail, FaultBadSetting, "daemon.json"},
		"a panic": {[]string{"9 7 - panic: runtime error: index out of range", "9 7 - goroutine 1 [running]:"},
			probe.Fail, "", "panic"},
		"a secret": {[]string{`9 7 F x.go:1] cannot use --token=abcdef0123456789abcdef`},
			probe.Fail, "", "(left out)"},
	} {
		var lines []journal.Entry
		for _, l := range c.lines {
			part := strings.SplitN(l, " ", 4)
			var before int
			must.Get(fmt.Sscan(part[0], &before))(t)
			e := journal.Entry{Time: now.Add(-time.Duration(before) * time.Second), PID: part[1], Text: part[3]}
			e.About = e.PID == "1"
			if part[2] != "-" {
				e.Text = part[2] + "1122 12:00:00.000000       7 " + part[3]
			}
			lines = append(lines, e)
		}
		r := judgeService(lines).result(now)
		if r.Status != c.status || r.Facts.Str(FactSignature) != c.signature || !strings.Contains(r.Saw, c.says) {
			t.Errorf("%s: %s %q %q, want %s %q with %q", name, r.Status, r.Facts.Str(FactSignature), r.Saw,
				c.status, c.signature, c.says)
		}
	}
}

// TestServiceLogJournal reads a real journal, and reports a missing one.
func TestServiceLogJournal(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if got := serviceLogOf(t, root, time.Now()); len(got) != 1 || got[0].Status != probe.Skip ||
		!strings.Contains(got[0].Saw, "no log of these services") {
		t.Errorf("without a journal: %+v", got)
	}
	folder := filepath.Join(root, "var/log/journal/0123456789abcdef0123456789abcdef")
	must.Do(t, os.MkdirAll(folder, 0o700))
	text := checktest.RecordedJournal(t, "../journal/testdata", "compact")
	must.Do(t, os.WriteFile(filepath.Join(folder, "system.journal"), text, 0o600))
	written := time.Unix(1795348808, 0) // the time of its last line
	got := serviceLogOf(t, root, written.Add(10*time.Second))
	if len(got) != 2 || got[0].Target != ServiceKubelet || got[0].Facts.Str(FactSignature) != FaultBadSetting ||
		got[0].Status != probe.Fail || got[1].Target != ServiceDocker ||
		got[1].Facts.Str(FactSignature) != FaultPortTaken {
		t.Errorf("%+v", got)
	}
	if got := serviceLogOf(t, root, written.Add(time.Hour)); len(got) != 1 || got[0].Status != probe.Skip {
		t.Errorf("an hour later: %+v", got)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "system.journal"), []byte(strings.Repeat("x", 300)), 0o600))
	if got := serviceLogOf(t, root, written); len(got) != 1 || got[0].Status != probe.Unknown {
		t.Errorf("one that is none: %+v", got)
	}
}

// TestServiceLogFiles reads a syslog in each format, and a service's own file.
func TestServiceLogFiles(t *testing.T) {
	t.Parallel()
	rfc := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	klog := func(text string) string { return "E1122 12:00:00.000000       7 " + text }
	for name, c := range map[string]struct {
		file, text string
		status     probe.Status
		says       string
	}{
		"old syslog": {"syslog", "Nov 22 12:00:00 a kubelet[7]: " + klog(kubeletFlag) +
			"\nNov 22 12:00:01 a systemd[1]: " + checktest.Exited + "\nNov 22 12:00:03 a cron[1]: x\n",
			probe.Fail, "it exited with: run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --no-such-flag\", "},
		"new syslog": {"messages", rfc(time.Now()) + " a kubelet[7]: " + klog(checktest.KubeletSwap) + "\n", probe.Fail,
			"swap on"},
		"its own": {"kubelet.log", klog(checktest.KubeletSwap) + "\n", probe.Fail, "swap on"},
		"long ago": {"messages", rfc(time.Now().Add(-time.Hour)) + " a kubelet[7]: " + klog(checktest.KubeletSwap) + "\n",
			probe.Info, "logged nothing"},
		"of another": {"syslog", "Nov 22 12:00:00 a cron[7]: " + klog(checktest.KubeletSwap) + "\n", probe.Skip,
			"no systemd journal"},
	} {
		root := t.TempDir()
		must.Do(t, os.MkdirAll(filepath.Join(root, "var/log"), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(root, "var/log", c.file), []byte(c.text), 0o600))
		got := serviceLogOf(t, root, time.Now())
		if len(got) != 1 || got[0].Status != c.status || !strings.Contains(got[0].Saw, c.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.status, c.says)
		}
		if quotes := len(got) == 1 && got[0].Status == probe.Fail; quotes && got[0].Facts[FactByTag] != true {
			t.Errorf("%s: what anything may have written is told as the service's own", name)
		}
	}
}

func serviceLogOf(t *testing.T, root string, now time.Time) []probe.Result {
	t.Helper()
	var got []probe.Result
	serviceLogAt(t.Context(), &probe.Pass{Host: &probe.Host{Root: root},
		Report: func(r probe.Result) { got = append(got, r) }}, now)
	return got
}
