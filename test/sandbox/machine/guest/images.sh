#!/bin/sh
# images.sh FILE BIN ARCHIVE...: creates FILE, the disk of a guest's /var/lib/containerd with the archives' images.
# containerd runs here and not in a guest, where unpacking takes thirty times as long. The caller creates namespaces for
# it, so that its mounts and processes end with this script.
set -eu
file=$1 bin=$2
shift 2
work=$file.d
trap 'rm -rf "$work" "$file.part"' EXIT
rm -rf "$work"
mkdir -p "$work/disk"
printf 'version = 3\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >"$work/config.toml"
"$bin/containerd" --config "$work/config.toml" --root "$work/disk" --state "$work/state" \
  --address "$work/containerd.sock" >"$work/log" 2>&1 &
pid=$!
ctr() { "$bin/ctr" --address "$work/containerd.sock" -n k8s.io "$@"; }
for _ in $(seq 100); do
  ctr version >/dev/null 2>&1 && break
  sleep 0.1
done
for archive; do
  ctr images import --label io.cri-containerd.image=managed "$archive" >/dev/null || { tail -n 20 "$work/log" >&2; exit 1; }
done
kill "$pid"
wait "$pid" || true
mkfs.ext4 -q -F -d "$work/disk" "$file.part" 8G
mv "$file.part" "$file"
