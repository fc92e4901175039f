package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/test/sandbox/cgroup"
)

// makeRoot creates the node's root on a tmpfs and enters it. So every path is that of a real node, and nothing is
// written to the machine. It fails rather than continue in the machine's root.
func makeRoot(l layout, m member) error {
	root := l.state("nodes", m.Name, "root")
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		os.MkdirAll(root, 0o755),
		unix.Mount("tmpfs", root, "tmpfs", 0, "mode=755"),
	); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	for _, dir := range []string{
		"usr", "etc", "proc", "sys", "dev", "run", "tmp", "root", "home", "mnt", "opt/cni/bin", "opt/sandbox", "old",
		"var/lib/calico/sandbox", "var/lib/cni/networks", "var/log/calico/cni", "var/tmp", "overlay/up", "overlay/work",
		"etc/cni/net.d", "etc/kubernetes", "etc/containerd", "run/calico", "var/lib/kubelet",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("making /%s: %w", dir, err)
		}
	}
	for link, to := range map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib",
		"lib64": "usr/lib64", "var/run": "/run"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			return fmt.Errorf("linking /%s: %w", link, err)
		}
	}
	if err := mountSystem(root, l, m); err != nil {
		return err
	}
	if err := copyEtc(filepath.Join(root, "etc")); err != nil {
		return err
	}
	return pivot(root)
}

// mountSystem mounts the machine's system folders, and new instances of those that the kernel creates per namespace.
func mountSystem(root string, l layout, m member) error {
	at := func(p string) string { return filepath.Join(root, p) }
	bin, err := cache()
	if err != nil {
		return err
	}
	// The node may change its /usr (/lib/modules is created there) without changing the machine's.
	if err := unix.Mount("overlay", at("usr"), "overlay", 0,
		fmt.Sprintf("lowerdir=/usr,upperdir=%s,workdir=%s", at("overlay/up"), at("overlay/work"))); err != nil {
		return fmt.Errorf("mounting /usr: %w", err)
	}
	if err := os.MkdirAll(at("usr/lib/modules"), 0o755); err != nil {
		return fmt.Errorf("making /lib/modules: %w", err)
	}
	binds := [][2]string{
		{bin, at("opt/sandbox")},
		{l.kubernetes(), at(kubernetesOnNode)},
		{l.state("logs"), at(l.state("logs"))},
		{l.state("nodes", m.Name), at(l.state("nodes", m.Name))},
	}
	calico, err := exists(l.calicoImages())
	if err != nil {
		return err
	}
	if calico {
		binds = append(binds, [2]string{l.calicoImages(), at(calicoArchives)})
	}
	for _, b := range binds {
		if err := errors.Join(os.MkdirAll(b[1], 0o755), unix.Mount(b[0], b[1], "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("binding %s: %w", b[0], err)
		}
	}
	if err := errors.Join(
		unix.Mount("proc", at("proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		unix.Mount("sysfs", at("sys"), "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
	); err != nil {
		return fmt.Errorf("mounting proc and sys: %w", err)
	}
	// systemd mounts it too, and without it Calico's ebpf-bootstrap warns. Some kernels have no /sys/fs/bpf.
	bpf, err := exists(at("sys/fs/bpf"))
	if err != nil {
		return err
	}
	if bpf {
		const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
		if err := unix.Mount("bpf", at("sys/fs/bpf"), "bpf", flags, "mode=700"); err != nil {
			return fmt.Errorf("mounting /sys/fs/bpf: %w", err)
		}
	}
	if err := cgroup.Mount(at("sys/fs/cgroup")); err != nil {
		return err
	}
	return makeDev(at("dev"))
}

func makeDev(dev string) error {
	if err := unix.Mount("tmpfs", dev, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	for _, d := range []string{"net", "pts", "shm", "mqueue"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return fmt.Errorf("making /dev/%s: %w", d, err)
		}
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg", "net/tun"} {
		if _, err := os.Stat(filepath.Join("/dev", d)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		name := filepath.Join(dev, d)
		if err := errors.Join(os.WriteFile(name, nil, 0o666),
			unix.Mount(filepath.Join("/dev", d), name, "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("binding /dev/%s: %w", d, err)
		}
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return fmt.Errorf("linking /dev/%s: %w", link, err)
		}
	}
	return errors.Join(
		unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"),
		unix.Mount("shm", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		unix.Mount("mqueue", filepath.Join(dev, "mqueue"), "mqueue", 0, ""),
	)
}

// copyEtc copies the files of the machine's /etc that programs need.
func copyEtc(etc string) error {
	for _, name := range []string{"passwd", "group", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "protocols",
		"services", "os-release", "ethertypes"} {
		b, err := os.ReadFile(filepath.Join("/etc", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, name), b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copying /etc/%s: %w", name, err)
		}
	}
	// iptables and other programs are links into this folder.
	if err := os.CopyFS(filepath.Join(etc, "alternatives"), os.DirFS("/etc/alternatives")); err != nil {
		return fmt.Errorf("copying /etc/alternatives: %w", err)
	}
	return nil
}

// pivot makes root the root and unmounts the old one.
func pivot(root string) error {
	if err := unix.PivotRoot(root, filepath.Join(root, "old")); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := errors.Join(
		os.Chdir("/"),
		unix.Unmount("/old", unix.MNT_DETACH),
		os.Remove("/old"),
		// kubelet and containerd need mounts to propagate; before pivot_root this fails with EINVAL.
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""),
	); err != nil {
		return fmt.Errorf("leaving the machine's root: %w", err)
	}
	return nil
}
