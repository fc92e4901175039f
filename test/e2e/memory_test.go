//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mostResident is what a client may take of memory whatever it is sent, in KiB.
const mostResident = 200 << 10

// resident is how many KiB of memory a process has ever had at once, 0 once it has ended.
func resident(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := strings.Cut(string(b), "VmHWM:")
	if err != nil || !found {
		return 0
	}
	n, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		panic(err) // the kernel writes a number
	}
	return n
}

// measured is a client whose memory is watched.
type measured struct {
	*exec.Cmd
	out, errs bytes.Buffer
	most      int // KiB it had resident at most
	over      chan struct{}
}

// measure starts a client and watches its memory; wait gives what it came to.
func measure(t *testing.T, args ...string) *measured {
	t.Helper()
	m := &measured{Cmd: client(t, args...)}
	m.Stdout, m.Stderr = &m.out, &m.errs
	m.start(t)
	return m
}

// start watches the client until it exits. The kernel's figures for an exited process include the program that started
// it.
func (m *measured) start(t *testing.T) {
	t.Helper()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	m.over = make(chan struct{})
	go func() {
		defer close(m.over)
		for {
			now := resident(m.Process.Pid)
			if now == 0 {
				return
			}
			m.most = max(m.most, now)
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// small tells whether it took no more than it may, and was seen at all.
func (m *measured) small() bool { return m.most > 0 && m.most <= mostResident }

func (m *measured) wait(t *testing.T) answer {
	t.Helper()
	began := time.Now()
	_ = m.Wait() // its exit code says it
	<-m.over
	t.Logf("%d MiB resident at most", m.most>>10)
	if !m.small() {
		t.Errorf("%d KiB resident, %d are allowed", m.most, mostResident)
	}
	return answer{m.ProcessState.ExitCode(), m.out.String(), m.errs.String(), time.Since(began)}
}
