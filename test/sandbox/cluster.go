package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/test/sandbox/cgroup"
	"github.com/calico-probe/calico-probe/test/sandbox/pki"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// cluster is the first process of the cluster's namespaces. It creates the network between the API server and the
// nodes, starts both, and then waits for all children.
func cluster(l layout) error {
	runtime.LockOSThread()
	// 'up' normally gives up earlier, and reports what it waited for.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if err := bringUp(ctx, l); err != nil {
		err = errors.Join(err, writeFile(l.state("failed"), err.Error()))
		if kept, keptErr := exists(l.state("keep")); !kept {
			return errors.Join(err, keptErr)
		}
		fmt.Fprintln(os.Stderr, err)
		select {} // until 'sandbox down'
	}
	if err := writeFile(l.state("ready"), ""); err != nil {
		return err
	}
	select {}
}

func bringUp(ctx context.Context, l layout) error {
	stage := func(text string) error { return writeFile(l.state("stage"), text) }
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
	); err != nil {
		return fmt.Errorf("mounting proc: %w", err)
	}
	f := newFamily(l)
	if err := makeFabric(); err != nil {
		return err
	}
	if err := startControlPlane(l, f); err != nil {
		return err
	}
	for _, m := range members() {
		if err := startNode(l, f, m); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	if err := stage("the API server"); err != nil {
		return err
	}
	api, err := newObjects(l)
	if err != nil {
		return err
	}
	if err := api.waitAnswering(ctx); err != nil {
		return err
	}
	return furnish(ctx, l, api, stage)
}

// startControlPlane starts etcd, the API server, the controllers and the scheduler.
func startControlPlane(l layout, f *family) error {
	for _, id := range append([]string{"controller-manager", "scheduler", "kube-proxy"}, memberNames()...) {
		server := fmt.Sprintf("https://%s:%d", fabric4, apiPort)
		if err := pki.Kubeconfig(l.state("pki"), l.state("pki", id+".kubeconfig"), server, id); err != nil {
			return err
		}
	}
	made := func(name string) string { return l.state("pki", name) }
	bin := l.kubernetes()
	f.keep("etcd", bin+"/etcd", "--data-dir", l.state("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "warn")
	f.keep("kube-apiserver", bin+"/kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379", "--advertise-address="+fabric4, "--secure-port="+strconv.Itoa(apiPort),
		"--service-cluster-ip-range="+services4+","+services6,
		"--client-ca-file="+made("ca.crt"),
		"--tls-cert-file="+made("apiserver.crt"), "--tls-private-key-file="+made("apiserver.key"),
		"--kubelet-client-certificate="+made("apiserver-kubelet.crt"), "--kubelet-client-key="+made("apiserver-kubelet.key"),
		"--kubelet-certificate-authority="+made("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file="+made("service-accounts.crt"), "--service-account-signing-key-file="+made("service-accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true")
	controllers := []string{bin + "/kube-controller-manager", "--kubeconfig=" + made("controller-manager.kubeconfig"),
		"--leader-elect=false", "--use-service-account-credentials", "--service-account-private-key-file=" + made("service-accounts.key"),
		"--root-ca-file=" + made("ca.crt"), "--allocate-node-cidrs", "--cluster-cidr=" + pods4 + "," + pods6,
		"--node-cidr-mask-size-ipv4=24", "--node-cidr-mask-size-ipv6=64", "--service-cluster-ip-range=" + services4 + "," + services6,
		"--bind-address=127.0.0.1", "--authentication-skip-lookup",
		"--kube-api-qps=200", "--kube-api-burst=400"} // its start alone makes a hundred calls
	if guestImages != "" {
		controllers = append(controllers, "--node-monitor-grace-period=3m20s", "--node-startup-grace-period=10m")
	}
	f.keep("kube-controller-manager", controllers...)
	f.keep("kube-scheduler", bin+"/kube-scheduler", "--kubeconfig="+made("scheduler.kubeconfig"), "--leader-elect=false",
		"--bind-address=127.0.0.1", "--authentication-skip-lookup")
	return nil
}

// startNode starts a node's first process in new namespaces, creates its network and cgroups, and then lets it
// continue.
func startNode(l layout, f *family, m member) error {
	if guestImages != "" {
		return startMachine(l, f, m)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting a node: %w", err)
	}
	defer w.Close()
	defer r.Close()
	pid, err := f.start(componentSelf, []string{"sandbox", verbNode, "--name", l.name, m.Name}, &os.ProcAttr{
		Files: []*os.File{r},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC},
	})
	if err != nil {
		return err
	}
	calico, err := exists(l.calicoManifest())
	if err = errors.Join(err, connect(m, pid)); err != nil {
		return err
	}
	if !calico { // Calico masquerades the pods' traffic to the API server, unless its user disabled that
		if err := knowPods(m); err != nil {
			return err
		}
	}
	if err := cgroup.Join(l.cgroup(m.Name), pid); err != nil {
		return err
	}
	if _, err := w.Write([]byte("go\n")); err != nil {
		return fmt.Errorf("letting the node go on: %w", err)
	}
	return nil
}

// joinNode is a node's first process before it has its cgroup namespace. That namespace is rooted at the process's
// current cgroup, so the process is moved first.
func joinNode(l layout, args []string) error {
	runtime.LockOSThread()
	m, _, err := memberNamed(args)
	if err != nil {
		return err
	}
	parent := os.NewFile(3, "parent")
	word := make([]byte, 3)
	if _, err := parent.Read(word); err != nil || strings.TrimSpace(string(word)) != "go" {
		return fmt.Errorf("the cluster gave up on this node: %w", err)
	}
	parent.Close()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a cgroup namespace: %w", err)
	}
	// exec keeps the namespaces of the calling thread for the whole process.
	return syscall.Exec("/proc/self/exe", []string{"sandbox", verbNodeInit, "--name", l.name, m.Name}, os.Environ())
}
