#!/bin/sh
# root.sh FOLDER BIN: creates root.ext4 in FOLDER, a Debian system with the programs of BIN, and boot/, what qemu boots.
set -eu
work=$1 bin=$2
root=$work/root
export DEBIAN_FRONTEND=noninteractive
trap 'rm -rf "$root" "$work/debs"' EXIT
rm -rf "$root" "$work/debs" "$work/boot"
mkdir -p "$work/debs" "$work/boot/modules"

apt-get update -qq
apt-get install -y -qq --no-install-recommends qemu-system-x86 debootstrap e2fsprogs >/dev/null
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: //p' | head -n 1)
chmod 755 "$work/debs"
(cd "$work/debs" && apt-get download -qq "$kernel" busybox-static 2>/dev/null)

packages=systemd-sysv,udev,dbus,kmod,procps,iproute2,iptables,nftables,ipset,conntrack,ipvsadm,wireguard-tools
packages=$packages,ethtool,iputils-ping,openssh-server,runc,containernetworking-plugins,ca-certificates
debootstrap --variant=minbase --include="$packages" bookworm "$root" http://deb.debian.org/debian >"$work/debs/log" ||
  { tail -n 20 "$work/debs/log" >&2; exit 1; }

# /lib is a link in the root: unpacking the kernel there would replace it by a folder.
dpkg-deb -x "$work"/debs/linux-image-*.deb "$work/debs/kernel"
dpkg-deb -x "$work"/debs/busybox-static_*.deb "$work/debs/busybox"
mkdir -p "$root/usr/lib/modules"
mv "$work"/debs/kernel/lib/modules/* "$root/usr/lib/modules/"
version=$(basename "$work"/debs/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')
chroot "$root" depmod "$version"
mv "$work"/debs/kernel/boot/vmlinuz-* "$work/boot/vmlinuz"
mv "$work"/debs/kernel/boot/config-* "$root/boot/"
mv "$work/debs/busybox/bin/busybox" "$work/boot/busybox"
n=10
for m in virtio_pci virtio_blk; do chroot "$root" modprobe -S "$version" --show-depends "$m"; done |
  awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
  while read -r file; do
    cp "$root$file" "$work/boot/modules/$n-$(basename "$file")"
    n=$((n + 1))
  done

# As on the sandbox's other nodes: ops, whom sshd admits and who may not become root, and a closed account.
chroot "$root" useradd -u 61000 -m -s /bin/sh -p '*' ops
chroot "$root" useradd -u 61001 -M -d / -s /usr/sbin/nologin closed
mkdir -p "$root/opt/sandbox/bin" "$root/opt/cni/bin" "$root/var/lib/containerd" "$root/var/log/journal"
for name in kube containerd containerd-shim-runc-v2 ctr; do cp "$bin/$name" "$root/opt/sandbox/bin/"; done
for file in "$root"/usr/lib/cni/*; do ln -s "${file#"$root"}" "$root/opt/cni/bin/"; done
for name in kubelet kube-proxy; do ln -s kube "$root/opt/sandbox/bin/$name"; done
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* \
  "$root"/usr/share/locale/* "$root"/etc/ssh/ssh_host_* "$root/etc/resolv.conf"
touch "$root/etc/.updated" "$root/var/.updated" # else systemd rebuilds its databases in the first boot

rm -f "$work/root.ext4"
mkfs.ext4 -q -F -d "$root" "$work/root.ext4.part" 6G
mv "$work/root.ext4.part" "$work/root.ext4"
