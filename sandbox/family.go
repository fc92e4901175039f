package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// family is the children of a first process. Such a process inherits every
// orphan of its namespace, so it waits for whatever ends and cannot use
// exec.Cmd, which waits for its own.
type family struct {
	layout layout
	mu     sync.Mutex
	ended  map[int]chan syscall.WaitStatus // of children somebody waits for
	early  map[int]syscall.WaitStatus      // of those that ended before anybody did
}

func newFamily(l layout) *family {
	f := &family{layout: l, ended: map[int]chan syscall.WaitStatus{}, early: map[int]syscall.WaitStatus{}}
	go f.reap()
	return f
}

func (f *family) reap() {
	for {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &st, 0, nil)
		if err != nil { // no child at the moment
			time.Sleep(10 * time.Millisecond)
			continue
		}
		f.mu.Lock()
		if ch := f.ended[pid]; ch != nil {
			ch <- st
			delete(f.ended, pid)
		} else {
			f.early[pid] = st
		}
		f.mu.Unlock()
	}
}

// start starts a program with its output appended to the component's log.
func (f *family) start(component string, argv []string, extra *os.ProcAttr) (int, error) {
	log, err := os.OpenFile(f.layout.log(component), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", component, err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", component, err)
	}
	defer null.Close()
	attr := os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, log, log}}
	if extra != nil {
		attr.Sys, attr.Files = extra.Sys, append(attr.Files, extra.Files...)
	}
	path := argv[0]
	if component == componentSelf {
		path = "/proc/self/exe"
	}
	p, err := os.StartProcess(path, argv, &attr)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", component, err)
	}
	return p.Pid, nil
}

// componentSelf is this program started once more.
const componentSelf = "nodes"

// wait waits for a child's end.
func (f *family) wait(pid int) syscall.WaitStatus {
	f.mu.Lock()
	if st, ok := f.early[pid]; ok {
		delete(f.early, pid)
		f.mu.Unlock()
		return st
	}
	ch := make(chan syscall.WaitStatus, 1)
	f.ended[pid] = ch
	f.mu.Unlock()
	return <-ch
}

// keep runs a daemon and starts it again a second after it ends, as a service
// manager would. While its program's file NAME.down lies in the node's control
// folder it stays down.
func (f *family) keep(component string, argv ...string) {
	go func() {
		for {
			if _, err := os.Stat(held(filepath.Base(argv[0]))); err == nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			pid, err := f.start(component, argv, nil)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%v\n", err)
			} else {
				st := f.wait(pid)
				fmt.Fprintf(os.Stderr, "%s: process %d ended: exit %d, signal %d\n", component, pid, st.ExitStatus(), st.Signal())
			}
			time.Sleep(time.Second)
		}
	}()
}

// once runs a program to its end.
func (f *family) once(component string, argv ...string) error {
	pid, err := f.start(component, argv, nil)
	if err != nil {
		return err
	}
	if st := f.wait(pid); st != 0 {
		return fmt.Errorf("%s: exit %d, signal %d; see its log", component, st.ExitStatus(), st.Signal())
	}
	return nil
}
