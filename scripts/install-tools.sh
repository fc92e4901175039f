#!/usr/bin/env bash
# Installs what the sandbox needs on Debian 12. Run as root; quiet when there is
# nothing to do. BIRD, docker, sshd, fping and Alertmanager are only unpacked: installed,
# all but fping would start on this machine. BIRD 2 needs libssh-gcrypt-4, sshd libwrap0.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${CALICO_PROBE_CACHE:-$PWD/.cache}
packages=(runc systemd libssh-gcrypt-4 libwrap0 openssh-client containernetworking-plugins iptables nftables ipset iproute2 tcpdump util-linux tmux less jq man-db groff-base ca-certificates bash-completion zsh fish clang-14 llvm-14 libbpf-dev linux-libc-dev gcc libc6-dev)

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
# Programs that are only unpacked: package, then a file it has.
unpacked=(bird:usr/sbin/bird6 bird2:usr/sbin/bird docker.io:usr/sbin/dockerd openssh-server:usr/sbin/sshd fping:usr/bin/fping prometheus-alertmanager:usr/bin/prometheus-alertmanager)
wanted=()
for u in "${unpacked[@]}"; do
  [ -x "$cache/${u%%:*}/${u#*:}" ] || wanted+=("${u%%:*}")
done
[ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ] && exit 0

[ "$(id -u)" = 0 ] || { echo "install-tools: run this as root: it installs ${missing[*]}" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "install-tools: needs Debian's apt-get" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
echo "from Debian: installing ${missing[*]:-nothing}, unpacking ${wanted[*]:-nothing}"
apt-get update -qq
if [ ${#missing[@]} -gt 0 ]; then
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
for p in "${wanted[@]}"; do
  mkdir -p "$cache/debs"
  (cd "$cache/debs" && rm -f ./"$p"_*.deb && apt-get download -qq "$p" 2>&1 | { grep -v 'performed unsandboxed' >&2 || true; })
  dpkg-deb -x "$cache"/debs/"$p"_*.deb "$cache/$p"
done
