package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/test/sandbox/cgroup"
	"github.com/calico-probe/calico-probe/test/sandbox/pki"
)

// supervise owns the cluster. It starts the cluster's first process in new namespaces, and admits clients on 127.0.0.1.
// However it ends, everything ends with it: the kernel kills the first process with its parent's thread, and a PID
// namespace with its first process.
func supervise(l layout) error {
	runtime.LockOSThread() // Pdeathsig follows the thread that started the child
	if err := startReaper(l); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for clients: %w", err)
	}
	if err := makeSSHKeys(l); err != nil {
		return err
	}
	if err := makePKI(l); err != nil {
		return err
	}
	if err := pki.Kubeconfig(l.state("pki"), l.kubeconfig(), "https://"+listener.Addr().String(), "admin"); err != nil {
		return err
	}
	log, err := os.Create(l.log("cluster"))
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", verbCluster, "--name", l.name)
	cmd.Args[0] = "sandbox"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	go admit(listener, cmd.Process.Pid)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-stop:
		return errors.Join(cmd.Process.Kill(), <-ended)
	case err := <-ended:
		return fmt.Errorf("the cluster's first process ended: %w", err)
	}
}

// admit passes connections on to the API server inside the cluster.
func admit(l net.Listener, pid int) {
	for {
		in, err := l.Accept()
		if err != nil {
			fmt.Fprintf(os.Stderr, "no more clients: %v\n", err)
			return
		}
		go func() {
			defer in.Close()
			out, err := dialInside(pid, net.JoinHostPort(fabric4, fmt.Sprint(apiPort)))
			if err != nil {
				fmt.Fprintf(os.Stderr, "a client could not connect: %v\n", err)
				return
			}
			defer out.Close()
			go func() { pass(out, in) }()
			pass(in, out)
		}()
	}
}

// pass copies one direction until its end, and then closes it.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // either side may close at any time
	if t, ok := to.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}

// dialInside connects from a network namespace. A socket belongs to the namespace of the thread that creates it. That
// thread ends with its goroutine, because it is never unlocked.
func dialInside(pid int, address string) (net.Conn, error) {
	type dialled struct {
		conn net.Conn
		err  error
	}
	got := make(chan dialled, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.GetFromPid(pid)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err != nil {
			got <- dialled{nil, fmt.Errorf("entering the cluster's network: %w", err)}
			return
		}
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		got <- dialled{conn, err}
	}()
	d := <-got
	return d.conn, d.err
}

// startReaper starts the process that outlives this one, and removes what the kernel does not. It holds the read end of
// a pipe without a writer: the pipe closes when this process ends.
func startReaper(l layout) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the cleaner: %w", err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", verbReap, "--name", l.name)
	cmd.Args[0] = "sandbox"
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cleaner: %w", err)
	}
	// A copy without a finalizer closes only when this process ends.
	if _, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return fmt.Errorf("starting the cleaner: %w", err)
	}
	return cmd.Process.Release()
}

// reap waits for the supervisor's end, then removes cgroups and state.
func reap(l layout) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the supervisor's end of the pipe closes
	return removeState(l)
}

// removeState removes the cgroup folders, the swap of a fault and the state of a cluster that has ended. Processes that
// are being killed keep their cgroup for a moment, so it retries.
func removeState(l layout) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.swapOff(ctx); err != nil {
		return fmt.Errorf("removing the swap: %w", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		var last error
		for _, m := range members() {
			if err := cgroup.Remove(l.cgroup(m.Name)); err != nil {
				last = err
			}
		}
		if last == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("removing cgroups: %w", last)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := os.RemoveAll(l.state()); err != nil {
		return fmt.Errorf("removing the state folder: %w", err)
	}
	_ = os.Remove(filepath.Dir(l.state())) // fails while another cluster exists
	return nil
}
