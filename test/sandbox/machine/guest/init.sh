#!/bin/busybox sh
# The first process of a guest: mounts the root, adds the node's own files at the first boot, and starts systemd.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for m in /modules/*; do $b insmod "$m"; done
$b mount -t ext4 -o noatime /dev/vda /new || exec $b sh
if [ ! -e /new/etc/sandbox ]; then
  $b cp -a /node/. /new/
  : >/new/etc/sandbox
fi
$b umount /proc
$b mount -o move /dev /new/dev
exec $b switch_root /new /sbin/init
