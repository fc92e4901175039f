//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// samples are what was measured, by name. Each is reported in the middle of its values.
type samples map[string][]float64

func (s samples) add(name string, value float64) { s[name] = append(s[name], value) }

// took adds a time in milliseconds.
func (s samples) took(name string, d time.Duration) { s.add(name+"-ms", d.Seconds()*1000) }

func (s samples) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the whole turn says nothing
	for name, values := range s {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
}

// BenchmarkRun measures runs from their start to their first answer from the node, to their verdict and to their end,
// and beside them, in turns, what the cluster itself needs to start a pause pod in the same place, and the same looks
// done by 'kubectl debug node'.
func BenchmarkRun(b *testing.B) {
	mustSandbox(b, "load", file(".cache/toolbox-here.tar"))
	settled(b)
	s := samples{}
	for b.Loop() {
		s.took("pause-pod", pausePod(b))
		s.took("kubectl-debug", kubectlDebug(b))
		for name, flags := range map[string][]string{
			"api":             {"--via", "api"},
			"pod-quick":       {"--via", "pod", "--profile", "quick"},
			"pod-standard":    {"--via", "pod"},
			"ephemeral-quick": {"--via", "ephemeral", "--profile", "quick"},
			"ephemeral":       {"--via", "ephemeral"},
		} {
			s.timeline(b, name, flags)
		}
		again := warm(b, "", 3) // a whole standard run, in a session whose probe is there
		s.took("warm-standard", again[len(again)/2])
	}
	s.report(b)
}

// timeline measures one run.
func (s samples) timeline(b *testing.B, name string, flags []string) {
	b.Helper()
	cmd := client(b, append([]string{"run", "--node", "node-a", "-o", "ndjson"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began, first := time.Now(), false
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	usage := usageOf(cmd.Process.Pid)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev probe.Event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			b.Fatal(err)
		}
		switch {
		case ev.Type == probe.EventVerdict:
			s.took(name+"-verdict", time.Since(began))
			if ev.Verdict.Exit != 0 {
				b.Fatalf("%s: %+v", name, ev.Verdict)
			}
		case !first && ev.Result != nil && ev.Result.Check != probe.CheckPlaced && (ev.Method != "api" || name == "api"):
			first = true
			s.took(name+"-first", time.Since(began))
		}
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	s.took(name+"-end", time.Since(began))
	if u := <-usage; name == "pod-standard" && u.peak > 0 {
		s.add("probe-MB", float64(u.peak)/1024)
		s.took("probe-cpu", u.cpu)
	}
}

// usage is what a probe took on its node.
type usage struct {
	peak int // KiB resident at most
	cpu  time.Duration
}

// usageOf watches the probe that runs on this machine while a client does. Its last word comes when the client ends.
func usageOf(client int) <-chan usage {
	done := make(chan usage, 1)
	go func() {
		var u usage
		for {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/fd", client)); err != nil {
				break
			}
			for _, dir := range podProbes() {
				pid, err := strconv.Atoi(filepath.Base(dir))
				if err == nil {
					u.peak = max(u.peak, resident(pid))
				}
				u.cpu = max(u.cpu, cpuOf(dir))
			}
			if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", client)); err != nil ||
				bytes.Contains(state, []byte(") Z ")) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		done <- u
	}()
	return done
}

// podProbes are the folders in /proc of probes in pods.
func podProbes() (out []string) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		panic(err) // the pattern is right
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err == nil && bytes.Contains(b, []byte("session\x00--root\x00/host\x00--node\x00node-a\x00")) {
			out = append(out, filepath.Dir(file))
		}
	}
	return out
}

// cpuOf is how long a process has run, in steps of the kernel's ticks of 10 ms.
func cpuOf(dir string) time.Duration {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0 // it has ended
	}
	_, after, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// looks lists the commands with which an engineer would collect the data of a quick run on a node.
const looks = `ip -br addr; ip route; ip route get 10.88.0.12; ip rule
cat /proc/swaps /proc/loadavg; free; df -h /host /host/var/lib
sysctl net.ipv4.ip_forward net.ipv4.conf.all.rp_filter
for at in 9099/liveness 9099/readiness 10248/healthz 10256/healthz; do
  curl -sS -m 2 -o /dev/null -w "$at %{http_code}\n" http://127.0.0.1:$at
done
ls -l /host/run/calico; ss -tn state established
ls -l /host/run/containerd/containerd.sock; conntrack -C; ip neigh
cat /host/etc/cni/net.d/*.conflist /host/var/lib/calico/nodename
ping -c 3 -i 0.02 -w 2 10.88.0.12`

var debugger = regexp.MustCompile(`node-debugger-\S+`)

// kubectlDebug is how long the looks take by 'kubectl debug node', until their output is seen and the pod deleted.
// Output that is written before kubectl has attached it does not show: the pod's log has it.
func kubectlDebug(b *testing.B) time.Duration {
	b.Helper()
	kubectl := func(args ...string) string {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, file(".cache/bin/kubectl"), args...).CombinedOutput()
		if err != nil {
			b.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	began := time.Now()
	said := kubectl("debug", "node/node-a", "-i", "--image=ghcr.io/calico-probe/toolbox:"+probe.Release,
		"--image-pull-policy=Never", "--profile=sysadmin", "--", "sh", "-c", looks)
	pod := debugger.FindString(said)
	// With -f it would wait for a second after the end.
	seen := ""
	for !strings.Contains(seen, "packets transmitted") {
		seen = kubectl("logs", pod)
		if time.Since(began) > time.Minute {
			b.Fatalf("the debugger's pod says no more than:\n%s", seen)
		}
	}
	if want := "9099/readiness 200"; !strings.Contains(seen, want) {
		b.Fatalf("no %q in what the debugger's pod says:\n%s", want, seen)
	}
	kubectl("delete", "pod", pod, "--wait=false")
	return time.Since(began)
}

// compared is the commit that this version is measured against: the last one without a view from outside.
const compared = "ae3b11de07baaa5364093f1350fb058742d85d08"

// BenchmarkOlder measures whole runs of this version and of an older one, in turns. The ratios are of the middle times.
func BenchmarkOlder(b *testing.B) {
	program := older(b, compared, "calico-probe")
	olderProbe(b, compared)
	settled(b)
	took := map[string][]float64{}
	for b.Loop() {
		for _, profile := range []string{"standard", "quick"} {
			for version, args := range map[string][]string{"now": nil, "then": {"--image", skewedImage}} {
				cmd := client(b, append([]string{"run", "--node", "node-a", "--via", "pod", "--profile", profile}, args...)...)
				if version == "then" {
					cmd.Path = program
				}
				began := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%s, %s: %v\n%s", profile, version, err, out)
				}
				took[profile+version] = append(took[profile+version], time.Since(began).Seconds())
			}
		}
	}
	b.ReportMetric(0, "ns/op") // the whole turn says nothing
	middle := func(name string) float64 { return slices.Sorted(slices.Values(took[name]))[len(took[name])/2] }
	for _, profile := range []string{"standard", "quick"} {
		b.ReportMetric(middle(profile+"now")/middle(profile+"then"), profile+"-ratio")
	}
}

// BenchmarkWarmCheck measures a check asked again in a session, in the middle of ten
// times, and in the same turn a whole run for that check only and the check itself. The
// ratios are those of the run to the session, and of the session to the check.
func BenchmarkWarmCheck(b *testing.B) {
	for _, check := range []string{"felix-live", "bgp-session"} {
		b.Run(check, func(b *testing.B) {
			var session, run, own time.Duration
			for b.Loop() {
				took := warm(b, check, 10)
				session += took[len(took)/2]
				began := time.Now()
				report(b, "run", "--node", "node-a", "--via", "pod", "--checks", check, "--baselines", "0")
				run += time.Since(began)
				own += itself(b, check)
			}
			n := float64(b.N)
			b.ReportMetric(session.Seconds()*1000/n, "session-ms")
			b.ReportMetric(own.Seconds()*1000/n, "check-ms")
			b.ReportMetric(run.Seconds()/session.Seconds(), "run-to-session")
			b.ReportMetric(session.Seconds()/own.Seconds(), "session-to-check")
		})
	}
}

// pausePod is how long a hostNetwork pod takes from create to running.
func pausePod(b *testing.B) time.Duration {
	b.Helper()
	pods := kube(b).CoreV1().Pods("kube-system")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pause-"},
		Spec: corev1.PodSpec{
			NodeName: "node-a", HostNetwork: true, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
	began := time.Now()
	pod, err := pods.Create(b.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := pods.Watch(b.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, TimeoutSeconds: new(int64(60)),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if p, ok := ev.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
			took := time.Since(began)
			if err := pods.Delete(b.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
			return took
		}
	}
	b.Fatal("the pause pod did not start within a minute")
	return 0
}
