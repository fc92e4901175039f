package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/test/sandbox/build"
)

// buildVerb builds the cluster's programs and images into the cache.
func buildVerb(ctx context.Context, o options) error {
	root, err := cache()
	if err != nil {
		return err
	}
	repo := filepath.Dir(root)
	if env := os.Getenv("CALICO_PROBE_CACHE"); env != "" {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding the repository: %w", err)
		}
		repo = filepath.Dir(filepath.Dir(exe))
	}
	if err := build.Run(ctx, repo, root, o.kubernetes); err != nil || !o.machines {
		return err
	}
	return buildMachines(ctx, root)
}

// nodePID returns a node's first process, in the machine's PID namespace.
func nodePID(l layout, node string) (int, error) {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("looking for %s: %w", node, err)
	}
	for _, p := range procs {
		if pid, err := strconv.Atoi(p.Name()); err == nil && isOurs(pid, verbNodeInit, l.name, node) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("cluster %s has no running %s: run 'sandbox up --name %s'", l.name, node, l.name)
}

// inside returns a command in all namespaces of a node.
func inside(ctx context.Context, l layout, node string, argv []string) (*exec.Cmd, error) {
	if guestImages != "" {
		return insideMachine(ctx, l, node, argv)
	}
	pid, err := nodePID(l, node)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-t", strconv.Itoa(pid), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append(os.Environ(), "PATH="+kubernetesOnNode+":/opt/sandbox/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return cmd, nil
}

func execOn(ctx context.Context, l layout, args []string) error {
	m, argv, err := memberNamed(args)
	if err != nil {
		return err
	}
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return badUsage("exec takes a command: sandbox exec %s -- ip route", m.Name)
	}
	cmd, err := inside(ctx, l, m.Name, argv)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return errExit(exit.ExitCode())
	}
	return err
}

// load imports archives on both nodes at the same time.
func load(ctx context.Context, l layout, tars []string) error {
	if len(tars) == 0 {
		return badUsage("load takes image archives")
	}
	errs := make(chan error)
	for _, m := range members() {
		go func() {
			var failed error
			for _, tar := range tars {
				failed = errors.Join(failed, loadOn(ctx, l, m.Name, tar))
			}
			errs <- failed
		}()
	}
	return errors.Join(<-errs, <-errs)
}

func loadOn(ctx context.Context, l layout, node, tar string) error {
	f, err := os.Open(tar)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer f.Close()
	cmd, err := inside(ctx, l, node, []string{"ctr", "-n", "k8s.io", "images", "import", "-"})
	if err != nil {
		return err
	}
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("importing %s on %s: %w: %s", filepath.Base(tar), node, err, out)
	}
	fmt.Printf("%s: imported %s\n", node, filepath.Base(tar))
	return nil
}

// felix sets how the stand-in answers, and waits until it does.
func felix(l layout, args []string) error {
	m, rest, err := memberNamed(args)
	if err != nil {
		return err
	}
	modes := []string{"ok", "204", "503", "hang", "refuse"}
	if len(rest) != 1 || !slices.Contains(modes, rest[0]) {
		return badUsage("felix takes the answer: %s", strings.Join(modes, ", "))
	}
	calico, err := exists(l.calicoManifest())
	if err != nil {
		return err
	}
	if calico {
		return fmt.Errorf("cluster %s runs Calico itself, not its stand-in", l.name)
	}
	pid, err := nodePID(l, m.Name)
	if err != nil {
		return err
	}
	dir := fmt.Sprintf("/proc/%d/root/var/lib/calico/sandbox", pid)
	if err := writeFile(filepath.Join(dir, "felix"), rest[0]); err != nil {
		return err
	}
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if now, err := os.ReadFile(filepath.Join(dir, "felix.now")); err == nil && string(now) == rest[0] {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("felix on %s did not change to %s within 10s: is calico-node running there?", m.Name, rest[0])
}

// initHang makes upgrade-ipam hang as in the field: the folder of an earlier host-local IPAM exists, and the migration
// never succeeds.
func initHang(ctx context.Context, l layout, args []string) error {
	m, rest, err := memberNamed(args)
	if err != nil {
		return err
	}
	if len(rest) != 1 || rest[0] != "on" && rest[0] != "off" {
		return badUsage("init-hang takes on or off")
	}
	b, err := openLab(l)
	if err != nil {
		return fmt.Errorf("init-hang: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	hang := rest[0] == "on"
	if err := b.leftovers(ctx, m.Name, hang); err != nil {
		return fmt.Errorf("init-hang: %w", err)
	}
	return b.hang(ctx, m.Name, hang)
}

// leftovers creates an address that host-local assigned to a deleted pod, or removes the folder.
func (l lab) leftovers(ctx context.Context, node string, there bool) error {
	const dir = "/var/lib/cni/networks/k8s-pod-network"
	if there {
		return l.on(ctx, node, "mkdir -p "+dir+"; printf 'f3c1\\neth0' >"+dir+"/10.200.0.5")
	}
	return l.on(ctx, node, "rm -rf "+dir)
}

func (o *objects) hang(ctx context.Context, node string, hang bool) error {
	pods := o.kube.CoreV1().Pods("kube-system")
	ours := metav1.ListOptions{LabelSelector: "k8s-app=calico-node", FieldSelector: "spec.nodeName=" + node}
	if hang { // a running pod has already passed its init containers
		if err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), ours); err != nil {
			return fmt.Errorf("deleting calico-node on %s: %w", node, err)
		}
	}
	return until(ctx, "calico-node on "+node, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, ours)
		if err != nil || len(list.Items) != 1 || len(list.Items[0].Status.InitContainerStatuses) == 0 {
			return false, err
		}
		first := list.Items[0].Status.InitContainerStatuses[0].State
		return hang == (first.Running != nil) && hang == (first.Terminated == nil) &&
			list.Items[0].Status.Phase != corev1.PodFailed, nil
	})
}
