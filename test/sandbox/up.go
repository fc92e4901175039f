package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/calico-probe/calico-probe/test/sandbox/build"
)

// up starts a detached supervisor and waits until the cluster is ready.
func up(ctx context.Context, l layout, o options) error {
	images, manifest, err := readCalico(o)
	if err != nil {
		return err
	}
	root, err := cache()
	if err != nil {
		return err
	}
	programs := build.Programs(root, o.kubernetes)
	if pid := supervisorPID(l); pid != 0 {
		if _, err := os.Stat(l.state("ready")); err == nil {
			if images != "" && !l.sameCalico(images, manifest) {
				return fmt.Errorf("cluster %s runs already, and not with this Calico: 'sandbox down --name %s' ends it", l.name, l.name)
			}
			if has, err := os.Readlink(l.kubernetes()); o.kubernetes != "" && (err != nil || has != programs) {
				return fmt.Errorf("cluster %s runs already, and not with Kubernetes %s: 'sandbox down --name %[1]s' ends it",
					l.name, o.kubernetes)
			}
			fmt.Printf("cluster %s is already up\nexport KUBECONFIG=%s\n", l.name, l.kubeconfig())
			return nil
		}
		return fmt.Errorf("cluster %s is being started or stopped by process %d; 'sandbox down --name %s' ends it", l.name, pid, l.name)
	}
	if err := build.Built(root, o.kubernetes); err != nil {
		return err
	}
	disk, err := machineImages(ctx, o.machines, images)
	if err != nil {
		return err
	}
	if err := removeState(l); err != nil { // of a cluster whose cleaner was killed too
		return err
	}
	if err := makeState(l); err != nil {
		return err
	}
	if err := errors.Join(l.keepCalico(images, manifest), l.keepSize(o.nodes), l.keepKubernetes(programs),
		l.keepUnready(o.keep), l.keepMachines(disk)); err != nil {
		return err
	}
	began := time.Now()
	if err := startDetached(l); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.timeout, patience(images)))
	defer cancel()
	if err := waitReady(ctx, l); err != nil {
		return errors.Join(err, errors.New(lastWords(l)), abandon(l, o.keep && !errors.Is(err, context.Canceled)))
	}
	fmt.Printf("cluster %s is up after %.1fs\nexport KUBECONFIG=%s\n", l.name, time.Since(began).Seconds(), l.kubeconfig())
	return nil
}

// keepUnready stores whether the cluster continues without being ready.
func (l layout) keepUnready(keep bool) error {
	if !keep {
		return nil
	}
	return writeFile(l.state("keep"), "")
}

// abandon takes a cluster down that is not ready in time, or prints how to look at one that the user keeps.
func abandon(l layout, keep bool) error {
	if keep && supervisorPID(l) != 0 {
		return fmt.Errorf("cluster %s is left running (--keep): 'sandbox status --name %[1]s' shows where to look, "+
			"'sandbox down --name %[1]s' ends it", l.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return down(ctx, l)
}

// makeState creates a cluster's folders. Another cluster that ends at this moment may remove the empty parent folder.
func makeState(l layout) error {
	var err error
	for range 10 {
		err = errors.Join(os.MkdirAll(l.state("logs"), 0o700), os.MkdirAll(l.state("pki"), 0o700),
			os.MkdirAll(l.state("etcd"), 0o700))
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	return nil
}

// patience is how long the cluster may take to become ready. Every node unpacks hundreds of megabytes of Calico's
// images, and Calico's start waits for the API several times.
func patience(images string) time.Duration {
	if guestImages != "" {
		return 25 * time.Minute
	}
	if images != "" {
		return 5 * time.Minute
	}
	return 90 * time.Second
}

// startDetached starts the supervisor in a new session, so that it outlives this command and its terminal.
func startDetached(l layout) error {
	log, err := os.Create(l.log("supervisor"))
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", verbSupervise, "--name", l.name)
	cmd.Args[0] = "sandbox"
	cmd.Env = os.Environ()
	root, err := cache()
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "CALICO_PROBE_CACHE="+root)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	if err := os.WriteFile(l.state("pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return errors.Join(fmt.Errorf("starting the cluster: %w", err), cmd.Process.Kill())
	}
	return cmd.Process.Release()
}

// appearing is how long a new process may take to show its arguments: for a moment after exec, /proc shows none, and an
// exited process never shows any.
const appearing = 5 * time.Second

// waitReady waits until the cluster's first process reports the result.
func waitReady(ctx context.Context, l layout) error {
	seen, began := false, time.Now()
	for {
		if _, err := os.Stat(l.state("ready")); err == nil {
			return nil
		}
		if why, err := os.ReadFile(l.state("failed")); err == nil {
			return fmt.Errorf("the cluster did not start: %s", why)
		}
		running := supervisorPID(l) != 0
		if !running && (seen || time.Since(began) > appearing) {
			return errors.New("the cluster ended while starting")
		}
		seen = seen || running
		select {
		case <-ctx.Done():
			stage, err := os.ReadFile(l.state("stage"))
			if err != nil {
				stage = []byte("the first process")
			}
			return fmt.Errorf("stopped waiting for %s: %w", stage, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lastWords returns the end of the most recent logs.
func lastWords(l layout) string {
	var b strings.Builder
	logs, err := filepath.Glob(l.log("*"))
	if err != nil {
		return err.Error()
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil || len(text) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(name), strings.Join(lines[max(0, len(lines)-6):], "\n"))
	}
	return b.String()
}

// down ends the supervisor and waits until its cleaner has removed everything.
func down(ctx context.Context, l layout) error {
	pid := supervisorPID(l)
	if pid == 0 {
		return removeState(l)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		if _, err := os.Stat(l.state()); os.IsNotExist(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still there: %w", l.state(), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// supervisorPID returns the supervisor's process, or 0.
func supervisorPID(l layout) int {
	b, err := os.ReadFile(l.state("pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil || !isOurs(pid, verbSupervise, l.name) {
		return 0
	}
	return pid
}

// isOurs reports whether a process is the one of this cluster that was started with the verb, because PIDs are reused.
func isOurs(pid int, verb, name string, more ...string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	want := strings.Join(append([]string{"sandbox", verb, "--name", name}, more...), "\x00") + "\x00"
	return err == nil && string(b) == want
}

func status(l layout) error {
	pid := supervisorPID(l)
	if pid == 0 {
		return fmt.Errorf("cluster %s is not up", l.name)
	}
	fmt.Printf("cluster %s: supervisor %d\nkubeconfig %s\nlogs %s\n", l.name, pid, l.kubeconfig(), l.state("logs"))
	for _, m := range members() {
		if guestImages != "" {
			fmt.Printf("%s: %s, %s, a virtual machine\n", m.Name, m.IP4, m.IP6)
			continue
		}
		init, err := nodePID(l, m.Name)
		if err != nil {
			fmt.Printf("%s: not running\n", m.Name)
			continue
		}
		fmt.Printf("%s: %s, %s, first process %d\n", m.Name, m.IP4, m.IP6, init)
	}
	return nil
}

func kubeconfig(l layout) error {
	if supervisorPID(l) == 0 {
		return fmt.Errorf("cluster %s is not up: run 'sandbox up --name %s'", l.name, l.name)
	}
	fmt.Println(l.kubeconfig())
	return nil
}
