//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heard is what a client writes, to be looked at while it does.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}
func (h *heard) String() string { h.mu.Lock(); defer h.mu.Unlock(); return h.text.String() }

// scripted is a session that runs.
type scripted struct {
	*exec.Cmd
	out, errs heard
}

// opened starts a session with these commands. config is its kubeconfig, "" = the tests'.
func opened(t testing.TB, config, commands string, args ...string) *scripted {
	t.Helper()
	s := &scripted{Cmd: client(t, append([]string{"shell", "-c", commands}, args...)...)}
	s.Stdout, s.Stderr = &s.out, &s.errs
	if config != "" {
		s.Env = append(os.Environ(), "KUBECONFIG="+config)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// says waits until the session has written something on stdout.
func (s *scripted) says(t testing.TB, text string) {
	t.Helper()
	eventually(t, 60*time.Second, func() string {
		if strings.Contains(s.out.String(), text) {
			return ""
		}
		return fmt.Sprintf("%q did not come\n%s%s", text, s.out.String(), s.errs.String())
	})
}

// ends waits for the session's end and requires an exit code.
func (s *scripted) ends(t testing.TB, exits ...int) {
	t.Helper()
	if err := s.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := s.ProcessState.ExitCode(); !slices.Contains(exits, got) {
		t.Errorf("exit %d, want %v\n%s%s", got, exits, s.out.String(), s.errs.String())
	}
}

// lines are those of its stderr that contain a text.
func (s *scripted) lines(text string) (out []string) {
	for l := range strings.Lines(s.errs.String()) {
		if strings.Contains(l, text) {
			out = append(out, strings.TrimSpace(l))
		}
	}
	return out
}

// probes are the containers of ours that run on the cluster, by their IDs.
func probes(t testing.TB) []string {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			continue
		}
		for _, c := range slices.Concat(p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
			ours := strings.HasPrefix(p.Name, "calico-probe-") || strings.HasPrefix(c.Name, "calico-probe-")
			if ours && c.State.Running != nil {
				out = append(out, string(p.UID)+" "+c.ContainerID)
			}
		}
	}
	return out
}

// answered are the numbers of the packets a ping has printed, in order.
func answered(out string) (got []int) {
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+)  `).FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[1])
		got = append(got, n)
	}
	return got
}

// numbers are those from 1 to n.
func numbers(n int) (out []int) {
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// TestShellLineCut cuts the API connection during a command, for a moment and for ten seconds. The session must
// continue with the same probe and report the cut. The command's output must be complete, without duplicates.
func TestShellLineCut(t *testing.T) {
	slow(t)
	for _, way := range []string{"pod", "ephemeral"} {
		for name, away := range map[string]time.Duration{"for a moment": 0, "for ten seconds": 10 * time.Second} {
			t.Run(way+" "+name, func(t *testing.T) {
				r := newRelay(t)
				s := opened(t, r.kubeconfig(t), "ping -c 90 -i 200ms 10.88.0.12; run felix-live; run; ping -c 15 10.88.0.12", "--node", "node-a", "--via", way, "--skip", "node-load,startup-budget")
				s.says(t, "   5  ")
				before := probes(t)
				if len(before) != 1 {
					t.Fatalf("%d probes: %v", len(before), before)
				}
				r.away(true)
				time.Sleep(away)
				r.away(false)
				s.says(t, "felix-live")
				if after := probes(t); !slices.Equal(before, after) {
					t.Errorf("before %v, after %v", before, after)
				}
				r.cut() // under a whole run too
				s.ends(t, 0)
				if got := answered(s.out.String()); !slices.Equal(got, slices.Concat(numbers(90), numbers(15))) {
					t.Errorf("lost or doubled: %v\n%s", got, s.errs.String())
				}
				if back := s.lines("with the same probe"); len(back) == 0 || len(back) > 2 || !strings.Contains(back[0], "the connection to the probe on node-a was lost") {
					t.Errorf("said: %s", s.errs.String())
				}
				if cut := s.lines("reconnecting for"); away > 0 && len(cut) != 1 {
					t.Errorf("said: %s", s.errs.String())
				}
				nothingLeft(t)
			})
		}
	}
}

// TestShellProbeGone cuts the API connection for longer than the probe's lifetime. The session must report it, and the
// next possible command must start another probe.
func TestShellProbeGone(t *testing.T) {
	slow(t)
	for _, way := range []string{"pod", "ephemeral"} {
		t.Run(way, func(t *testing.T) {
			r := newRelay(t)
			// The second command cannot reach the API, and the command behind its pipe is slow.
			s := opened(t, r.kubeconfig(t), "ping -c 0 10.88.0.12; run felix-live | sleep 10; ping -c 2 -i 2s 10.88.0.12; run felix-live", "--node", "node-a", "--via", way)
			s.says(t, "   5  ")
			before := probes(t)
			r.away(true)
			eventually(t, 60*time.Second, func() string {
				if len(s.lines("broke off")) == 0 {
					return "nothing said: " + s.errs.String()
				}
				return ""
			})
			r.away(false)
			s.says(t, "felix-live")
			s.ends(t, 5, 1) // the ping was not answered whole; the run may have found no API yet
			if len(s.lines("it has exited"))+len(s.lines("it ended"))+len(s.lines("is gone"))+len(s.lines("is being deleted")) == 0 || len(s.lines("placing another probe on node-a")) != 1 {
				t.Errorf("said: %s", s.errs.String())
			}
			if got := answered(s.out.String()); len(got) < 7 || !slices.Equal(got[len(got)-2:], numbers(2)) {
				t.Errorf("the next command: %v", got)
			}
			t.Logf("%v, then: %s", before, s.errs.String())
			nothingLeft(t)
		})
	}
}

// TestShellProbeHangsOnItsLine cuts the connection of a probe that exits with its connection. The session must report
// it, and the next command must start another probe.
func TestShellProbeHangsOnItsLine(t *testing.T) {
	const commands = "ping -c 0 10.88.0.11; ping -c 3 10.88.0.11"
	check := func(t *testing.T, s *scripted) {
		s.ends(t, 5)
		if len(s.lines("broke off")) != 1 || len(s.lines("placing another probe on node-b")) != 1 {
			t.Errorf("said: %s", s.errs.String())
		}
		if got := answered(s.out.String()); len(got) < 8 || !slices.Equal(got[len(got)-3:], numbers(3)) {
			t.Errorf("the next command: %v", got)
		}
		nothingLeft(t)
	}
	t.Run("exec", func(t *testing.T) {
		execTarget(t)
		r := newRelay(t)
		s := opened(t, r.kubeconfig(t), commands, "--node", "node-b", "--via", "exec")
		s.says(t, "   5  ")
		r.cut()
		check(t, s)
	})
	t.Run("ssh", func(t *testing.T) {
		s := opened(t, "", commands, append(bySSH(t), "--node", "node-b", "--via", "ssh")...)
		s.says(t, "   5  ")
		for _, pid := range children(t, s.Process.Pid) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		check(t, s)
	})
}

// children are the processes a process has started, and that run.
func children(t testing.TB, pid int) (out []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		b, _ := os.ReadFile(l) // a thread may just have ended
		for child := range strings.FieldsSeq(string(b)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// TestShellLeavesNothing ends sessions on both nodes in every way. Created objects must disappear at once, or
// automatically if the client could not act.
func TestShellLeavesNothing(t *testing.T) {
	slow(t)
	const both = "run node-swap; node node-b; run node-swap; ping -c 3 10.88.0.11"
	for _, way := range []string{"pod", "ephemeral", "ssh"} {
		flags := []string{"--node", "node-a", "--via", way}
		if way == "ssh" {
			flags = append(flags, bySSH(t)...)
		}
		t.Run(way, func(t *testing.T) {
			var all sync.WaitGroup
			in := func(name string, f func()) {
				all.Go(func() {
					f()
					if t.Failed() {
						t.Logf("with what ended by %s, perhaps", name)
					}
				})
			}
			in("exit", func() { opened(t, "", both+"; exit; ping -c 0 10.88.0.11", flags...).ends(t, 0) })
			in("end of stdin", func() {
				cmd := client(t, append([]string{"shell"}, flags...)...)
				cmd.Stdin = strings.NewReader(strings.ReplaceAll(both, "; ", "\n"))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
			in("--timeout", func() {
				s := opened(t, "", both+"; ping -c 0 10.88.0.11; run node-swap", append(flags, "--timeout", "20s")...)
				s.ends(t, 1)
				if len(s.lines("--timeout 20s is over")) == 0 {
					t.Errorf("said: %s", s.errs.String())
				}
			})
			for sig, exit := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGINT: 130} {
				in(sig.String(), func() {
					s := opened(t, "", both+"; ping -c 0 -i 100ms 10.88.0.11", flags...)
					s.pings(t)
					if err := s.Process.Signal(sig); err != nil {
						t.Error(err)
					}
					s.ends(t, exit)
				})
			}
			all.Wait()
			eventually(t, time.Minute, func() string { return left(t) })

			s := opened(t, "", both+"; ping -c 0 -i 100ms 10.88.0.11", flags...)
			s.pings(t)
			if err := s.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = s.Wait()
			nothingLeft(t)
		})
	}
}

// pings waits until the last command of a session runs. It may be called beside others.
func (s *scripted) pings(t *testing.T) {
	for range 600 {
		if strings.Contains(s.out.String(), "   7  ") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("it never came so far\n%s%s", s.out.String(), s.errs.String())
}

// TestShellFrozen stops a client for longer than its objects live without it. All objects must be gone meanwhile, and
// the client must report that when it continues.
func TestShellFrozen(t *testing.T) {
	slow(t)
	s := opened(t, "", "ping -c 0 10.88.0.12; ping -c 3 10.88.0.12; run felix-live", "--node", "node-a", "--via", "pod", "--timeout", "170s")
	s.says(t, "   5  ")
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	spec := pods.Items[0].Spec
	if end := spec.ActiveDeadlineSeconds; end == nil || *end != 180 || !slices.Contains(args(spec), "3m0s") {
		t.Errorf("the hard end on the server's side: %v, %v", end, args(spec))
	}
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, 90*time.Second, func() string { return left(t) })
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.says(t, "felix-live")
	s.ends(t, 5)
	if len(s.lines("broke off")) != 1 || len(s.lines("is gone")) == 0 || len(s.lines("placing another probe on node-a")) != 1 {
		t.Errorf("said: %s", s.errs.String())
	}
	// Told to end, the probe may still end the first command itself: then that one is whole,
	// and it is the second that finds the probe gone.
	got := answered(s.out.String())
	switch broke := "10.88.0.12: the probe's answer broke off"; {
	case len(s.lines("ping -c 0 "+broke)) == 1 && len(got) >= 8 && slices.Equal(got[len(got)-3:], numbers(3)):
	case len(s.lines("ping -c 3 "+broke)) == 1 && len(got) >= 5 && slices.Equal(got, numbers(len(got))) &&
		strings.Contains(s.out.String(), "sent,"):
	default:
		t.Errorf("what was asked: %v\n%s", got[max(0, len(got)-5):], s.errs.String())
	}
	nothingLeft(t)
}

// args are those of a pod's container.
func args(spec corev1.PodSpec) []string { return spec.Containers[0].Args }

// TestShellNoWay requires that a session on a node without a probe reports why, and continues with the API's data.
func TestShellNoWay(t *testing.T) {
	slow(t)
	s := opened(t, "", "ping -c 1 10.88.0.12; run node-ready", "--node", "node-a", "--via", "pod", "--image", "nowhere.invalid/probe:0")
	s.ends(t, 5)
	if len(s.lines("there is no probe on node-a: 'node node-a' tries again, and shows why")) != 1 || len(s.lines("cannot get image nowhere.invalid/probe:0")) == 0 {
		t.Errorf("said: %s", s.errs.String())
	}
	if !strings.Contains(s.out.String(), "node-ready") {
		t.Errorf("no answer of the API's\n%s", s.out.String())
	}
	nothingLeft(t)
}

// warm runs one check again and again in one session and returns how long each time
// took, from the end of the command before.
func warm(t testing.TB, check string, times int) []time.Duration {
	t.Helper()
	one := "run " + check + " | cat && date +%s%N\n"
	a := call(t, "shell", "--node", "node-a", "--via", "pod", "-c", strings.Repeat(one, times+1))
	if a.exit != 0 {
		t.Fatalf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	var out []time.Duration
	before := 0
	for _, m := range regexp.MustCompile(`(?m)^(\d{19})$`).FindAllString(a.stdout, -1) {
		at, err := strconv.Atoi(m)
		if err != nil {
			t.Fatal(err)
		}
		if before > 0 {
			out = append(out, time.Duration(at-before))
		}
		before = at
	}
	if len(out) != times {
		t.Fatalf("%d of %d\n%s", len(out), times, a.stdout)
	}
	slices.Sort(out)
	return out
}

// itself is how long a check takes on the node, in the middle of some times.
func itself(t testing.TB, check string) time.Duration {
	t.Helper()
	var out []time.Duration
	for range 5 {
		d, _ := report(t, "run", "--node", "node-a", "--via", "pod", "--checks", check, "--baselines", "0")
		longest := time.Duration(0)
		for _, r := range d.of(check) {
			longest = max(longest, r.Elapsed)
		}
		out = append(out, longest)
	}
	slices.Sort(out)
	return out[len(out)/2]
}

// TestWarmCheck requires that a repeated check in a session takes at most 150 ms more than the check itself.
func TestWarmCheck(t *testing.T) {
	settled(t)
	for _, check := range []string{"felix-live", "bgp-session", "node-swap"} {
		took, own := warm(t, check, 10), itself(t, check)
		middle := took[len(took)/2]
		t.Logf("%s: %v in a session, %v itself", check, middle, own)
		if middle-own > 150*time.Millisecond {
			t.Errorf("%s takes %v in a session, itself %v", check, middle, own)
		}
	}
	nothingLeft(t)
}
