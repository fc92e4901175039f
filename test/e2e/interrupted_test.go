//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// An interruption ends a run, or a session, before its time. at is called once it is to be
// ended; it may be before anything was created, or while its probe answers.
type interruption struct {
	name    string
	session bool // of a session whose probe answers until it is ended, else of a run
	timeout int  // --timeout in seconds if it is to be ended while its probe answers, 0 = the default
	at      func(t *testing.T, r *interruptedRun)
	exit    int // what the client exits with, 0 = anything but 0
}

// interruptedRun is one that is ended early.
type interruptedRun struct {
	*exec.Cmd
	relay  *relay // its own connection to the API server, nil = the tests'
	way    string
	reason string // which is on what it creates, and nobody else's
	live   bool   // a probe had begun to answer, and had not ended, when there was no more to read
}

func interruptions(k kubernetes.Interface) []interruption {
	signal := func(s syscall.Signal) func(*testing.T, *interruptedRun) {
		return func(_ *testing.T, r *interruptedRun) { _ = r.Process.Signal(s) } // it may have ended just before
	}
	return []interruption{
		{name: "killed", at: signal(syscall.SIGKILL)},
		{name: "Ctrl-C", at: signal(syscall.SIGINT), exit: 130},
		{name: "cut", at: func(_ *testing.T, r *interruptedRun) { r.relay.away(true) }, timeout: 30},
		{name: "timed out", session: true, at: func(*testing.T, *interruptedRun) {}, timeout: 30},
		{name: "evicted", session: true, at: evictProbe(k), timeout: 60},
	}
}

// evictProbe has the API evict the probe's pod, as a drain of its node would.
func evictProbe(k kubernetes.Interface) func(*testing.T, *interruptedRun) {
	pods := k.CoreV1().Pods("kube-system")
	return func(t *testing.T, r *interruptedRun) {
		list, err := pods.List(context.Background(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
		if err != nil {
			t.Error(err)
			return
		}
		for _, p := range list.Items {
			if p.Annotations["calico-probe.io/reason"] != r.reason {
				continue
			}
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}}
			_ = pods.EvictV1(context.Background(), eviction) // it may be gone by now
		}
	}
}

// TestInterruptedRuns ends runs and sessions in every way, half while the probe answers and half at a random moment. A
// minute after the last one, nothing of ours may be left, and no foreign object may have changed. INTERRUPTED sets the
// number: 'make soak' uses a thousand.
func TestInterruptedRuns(t *testing.T) {
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("INTERRUPTED"), "50"))
	if err != nil {
		t.Fatal(err)
	}
	ssh := bySSH(t)
	unchanged(t)
	const abreast = 4
	turn := make(chan struct{}, abreast)
	var all sync.WaitGroup
	var mu sync.Mutex
	total, live := map[string]int{}, map[string]int{}
	kinds := interruptions(kube(t))
	for i := range runs {
		turn <- struct{}{}
		kind, round := kinds[i%len(kinds)], i/len(kinds)
		r := toInterrupt(t, round, kind, ssh)
		all.Go(func() {
			defer func() { <-turn }()
			r.interrupt(t, round, kind)
			mu.Lock()
			defer mu.Unlock()
			total[kind.name]++
			if r.live {
				live[kind.name]++
			}
		})
	}
	all.Wait()
	began := time.Now()
	nothingLeft(t)
	t.Logf("nothing left %v after the last of %d runs", time.Since(began).Round(time.Second), runs)
	for _, k := range kinds {
		t.Logf("%-9s %d runs, %d of them while a probe answered", k.name, total[k.name], live[k.name])
		if live[k.name] == 0 {
			t.Errorf("%s: none of %d runs was ended while its probe answered: nothing was tested", k.name, total[k.name])
		}
	}
}

// toInterrupt makes the run that is ended in one way in a round. Ephemeral containers stay
// listed in their pod for ever, so few runs go that way.
func toInterrupt(t *testing.T, round int, kind interruption, ssh []string) *interruptedRun {
	t.Helper()
	node := []string{"node-a", "node-b"}[round/2%2]
	r := &interruptedRun{way: "pod", reason: fmt.Sprintf("interrupted run %d, %s", round, kind.name)}
	args := []string{"run", "-o", "ndjson", "--profile", "deep"}
	if kind.session {
		args = []string{"shell", "-c", "ping -c 0 -i 100ms 10.88.0.1"}
	}
	args = append(args, "--node", node, "--reason", r.reason)
	switch timeout := kind.timeout; {
	case timeout == 0:
	case whileAnswering(round):
		args = append(args, "--timeout", fmt.Sprintf("%ds", timeout))
	default: // before its probe answers, as likely as not
		args = append(args, "--timeout", "6s")
	}
	switch {
	case kind.name == "evicted": // which only a pod can be
	case round%5 == 1 && kind.name != "cut": // its connection is not the API server's
		r.way = "ssh"
		args = append(args, ssh...)
	case round%20 == 2:
		r.way = "ephemeral"
	}
	r.Cmd = client(t, append(args, "--via", r.way)...)
	if kind.name == "cut" {
		r.relay = newRelay(t)
		r.Env = append(os.Environ(), "KUBECONFIG="+r.relay.kubeconfig(t))
	}
	return r
}

// whileAnswering reports whether the runs of a round are ended once their probes answer, which a loaded
// machine may take half a minute for. Those of the other rounds are ended at a random moment.
func whileAnswering(round int) bool { return round%2 == 0 }

// interrupt starts the run and ends it: in every other round as soon as its probe answers,
// in the rest at a random moment. A run that was ended while its probe answered must not
// end as a good one does.
func (r *interruptedRun) interrupt(t *testing.T, round int, kind interruption) {
	var errs bytes.Buffer
	r.Stderr = &errs
	out, err := r.StdoutPipe()
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	end := sync.OnceFunc(func() { kind.at(t, r) })
	if !whileAnswering(round) {
		random := time.AfterFunc(time.Duration(rand.IntN(2500))*time.Millisecond, end)
		defer random.Stop()
	} else {
		defer time.AfterFunc(time.Minute, end).Stop() // else one that never gets a probe would not end
	}
	said := r.follow(out, func() {
		if whileAnswering(round) {
			end()
		}
	})
	_ = r.Wait() // with the exit code of what ended it
	code := r.ProcessState.ExitCode()
	if bad := code == 0 || kind.exit != 0 && code != kind.exit; r.live && bad {
		t.Errorf("%s by %s: exit %d, want %d, 0 = any other\n%s%s", kind.name, r.way, code, kind.exit, said, errs.String())
	}
	if r.live && strings.Contains(said, `"verdict":"healthy"`) {
		t.Errorf("%s by %s: called healthy\n%s", kind.name, r.way, said)
	}
	if strings.Contains(said+errs.String(), "panic:") {
		t.Errorf("%s by %s: %s%s", kind.name, r.way, said, errs.String())
	}
}

// answering is a line of a ping that has been answered, in a session.
var answering = regexp.MustCompile(`^ *\d+  `)

// follow reads what a run or a session writes to its end, calls answers once its probe has
// begun to answer, and notes whether it had not ended when there was no more to read.
func (r *interruptedRun) follow(out io.Reader, answers func()) (said string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	begun, ended := false, false
	for lines.Scan() {
		line := lines.Text()
		said += line + "\n"
		ofProbe := strings.Contains(line, `"way":"`+r.way+`"`)
		switch {
		case ofProbe && strings.Contains(line, `"type":"start"`), answering.MatchString(line):
			begun = true
			answers()
		case ofProbe && strings.Contains(line, `"type":"end"`):
			ended = true
		}
	}
	r.live = begun && !ended
	return said
}
