package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// family has the children of a first process. Such a process inherits every orphan of its namespace, so it must wait
// for any child. It cannot use exec.Cmd, which waits only for its own.
type family struct {
	layout  layout
	journal *nodeJournal // nil if daemons write to files outside the node
	mu      sync.Mutex
	ended   map[int]chan syscall.WaitStatus // children with a waiter
	early   map[int]syscall.WaitStatus      // children that ended before their waiter came
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
		if err != nil { // no child now
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

// output returns the file for a component's output: the node's journal, or a log outside the node.
func (f *family) output(component string) (*os.File, error) {
	if f.journal != nil && f.journal.service(component) != component {
		return f.journal.stream(component)
	}
	return os.OpenFile(f.layout.log(component), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// start starts a program with its output in the component's log.
func (f *family) start(component string, argv []string, extra *os.ProcAttr) (int, error) {
	log, err := f.output(component)
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

// componentSelf is this program, started again.
const componentSelf = "nodes"

// wait waits until a child ends.
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

// keep runs a daemon, and restarts it a second after it ends, as a service manager does. While the node's control
// folder has a file NAME.down, the daemon stays down.
func (f *family) keep(component string, argv ...string) {
	go func() {
		for {
			if f.down(argv[0]) {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			pid, err := f.start(component, argv, nil)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%v\n", err)
			} else {
				if f.journal != nil {
					f.journal.say(component, "Started %s.service - %[1]s.", f.journal.service(component))
				}
				st := f.wait(pid)
				fmt.Fprintf(os.Stderr, "%s: process %d ended: exit %d, signal %d\n", component, pid, st.ExitStatus(), st.Signal())
				if f.journal != nil {
					f.journal.ended(component, st, f.down(argv[0]))
				}
			}
			time.Sleep(time.Second)
		}
	}()
}

// down reports whether a daemon must stay down.
func (f *family) down(program string) bool {
	_, err := os.Stat(held(filepath.Base(program)))
	return err == nil
}

// once runs a program until it ends.
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
