// Package machine runs nodes of the sandbox as virtual machines, each with a kernel, systemd and a journal:
//
//	Build   Debian's kernel, a Debian root disk with the sandbox's programs, and qemu (once).
//	Images  a disk with unpacked container images, made outside the guests (once per set of archives).
//	Guest   one node: its own files, both disks, and the command that runs it.
//
// qemu emulates the processor. It does not use /dev/kvm, because many machines for tests have none, or one that hangs.
// A guest is therefore about thirty times slower than the machine. The package does not know Kubernetes: the sandbox
// passes configuration as files.
package machine

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

//go:embed guest
var guest embed.FS

// The size of a guest.
const (
	memory = "1536" // MiB
	cpus   = "1"
)

// kernelArgs make the kernel quiet, and disable what only costs time in an emulated processor. The mitigations flush
// the translations of an address space at every system call.
const kernelArgs = "console=ttyS0 quiet loglevel=3 net.ifnames=0 mitigations=off nokaslr audit=0 " +
	"selinux=0 apparmor=0 random.trust_cpu=on no_timer_check " +
	"tsc=reliable clocksource=tsc nowatchdog systemd.show_status=0 panic=5"

// processor leaves out features that make an emulated processor slower. They are string instructions that move single
// bytes, a fifth level of page tables, and checks of every access to a user's memory.
const processor = "max,erms=off,la57=off,smap=off,smep=off"

// Guest is one node.
type Guest struct {
	Name    string
	Address netip.Addr // IPv4; the network card's address follows from it
	Images  string     // the disk that Images made
	Folder  string     // existing folder for the guest's files; they disappear with the sandbox's state
	Console string     // file for the kernel's messages
	Files   map[string]File
}

// Command prepares the guest and returns the command that runs it. Changes to disks are stored in deleted files in the
// guest's folder, so they survive reboots and end with the command.
func (g Guest) Command(cache string) ([]string, error) {
	initrd := filepath.Join(g.Folder, "initrd")
	text, err := initramfs(bootFolder(cache), g.Files)
	if err != nil {
		return nil, fmt.Errorf("making the initramfs of %s: %w", g.Name, err)
	}
	if err := os.WriteFile(initrd, text, 0o600); err != nil {
		return nil, fmt.Errorf("making the initramfs of %s: %w", g.Name, err)
	}
	disk := func(file string) string {
		return "file=" + file + ",format=raw,if=virtio,snapshot=on,cache=unsafe,aio=threads"
	}
	a := g.Address.As4()
	return []string{
		"/usr/bin/env", "TMPDIR=" + g.Folder, qemu, "-name", g.Name, "-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", processor, "-m", memory, "-smp", cpus,
		"-kernel", filepath.Join(bootFolder(cache), "vmlinuz"), "-initrd", initrd, "-append", kernelArgs,
		"-drive", disk(rootDisk(cache)), "-drive", disk(g.Images),
		"-netdev", "tap,id=eth0,ifname=" + g.Name + ",script=no,downscript=no",
		"-device", fmt.Sprintf("virtio-net-pci,netdev=eth0,romfile=,mac=52:54:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3]),
		"-device", "virtio-rng-pci", "-serial", "file:" + g.Console,
		"-qmp", "unix:" + filepath.Join(g.Folder, "qmp") + ",server=on,wait=off",
	}, nil
}

// Plug creates the guest's end of the bridge, a tap device with the guest's name.
func Plug(name, bridge string) error {
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_DEFAULTS | netlink.TUNTAP_VNET_HDR}
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("making its cable: %w", err)
	}
	if err := errors.Join(netlink.LinkSetMaster(tap, master), netlink.LinkSetUp(tap)); err != nil {
		return fmt.Errorf("plugging it in: %w", err)
	}
	return nil
}

// Systemd returns the files that every guest needs, whatever it runs: its units, network and settings.
func Systemd(ip4, ip6 netip.Prefix, gateway4, gateway6 string) (map[string]File, error) {
	files := map[string]File{
		"/etc/fstab": Text("/dev/vda / ext4 defaults,noatime 0 0\n" +
			"/dev/vdb /var/lib/containerd ext4 defaults,noatime 0 0\n"),
		"/etc/modules-load.d/kubernetes.conf": Text("overlay\nbr_netfilter\n"),
		"/etc/systemd/network/eth0.network": Text(fmt.Sprintf("[Match]\nName=eth0\n\n[Network]\nGateway=%s\nGateway=%s\n"+
			"IPv6AcceptRA=no\n\n[Address]\nAddress=%s\n\n[Address]\nAddress=%s\nDuplicateAddressDetection=none\n",
			gateway4, gateway6, ip4, ip6)),
	}
	const units = "/etc/systemd/system/"
	for name, to := range map[string]string{
		"sysctl.conf": "/etc/sysctl.d/90-kubernetes.conf", "journald.conf": "/etc/systemd/journald.conf.d/sandbox.conf",
		"containerd.service": units, "kubelet.service": units, "kube-proxy.service": units,
	} {
		b, err := guest.ReadFile("guest/" + name)
		if err != nil {
			return nil, err
		}
		if to == units {
			to += name
			files[units+"multi-user.target.wants/"+name] = Link(to)
		}
		files[to] = Text(string(bytes.TrimLeft(b, "\n")))
	}
	const networkd = "systemd-networkd.service"
	files[units+"multi-user.target.wants/"+networkd] = Link("/lib/systemd/system/" + networkd)
	for _, name := range idle {
		files[units+name] = Link(os.DevNull)
	}
	return files, nil
}

// idle are units that are of no use to a node and cost seconds.
var idle = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
	"fstrim.timer", "getty@.service", "serial-getty@.service", "systemd-pstore.service", "systemd-udev-settle.service",
	"systemd-binfmt.service", "systemd-hwdb-update.service", "systemd-firstboot.service", "ldconfig.service",
	"systemd-networkd-wait-online.service", "wg-quick.target", "ipvsadm.service",
}
