#!/usr/bin/env bash
# Installs what the sandbox needs on Debian 12. Run as root; quiet when there is
# nothing to do. BIRD is only unpacked: installed, it would start on this machine.
# BIRD 2 needs libssh-gcrypt-4.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${CALICO_PROBE_CACHE:-$PWD/.cache}
packages=(runc libssh-gcrypt-4 containernetworking-plugins iptables nftables iproute2 util-linux ca-certificates)

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
need_bird=
[ -x "$cache/bird/usr/sbin/bird6" ] || need_bird=1
[ ${#missing[@]} -eq 0 ] && [ -z "$need_bird" ] && exit 0

[ "$(id -u)" = 0 ] || { echo "install-tools: run this as root: it installs ${missing[*]}" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "install-tools: needs Debian's apt-get" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
echo "installing ${missing[*]} ${need_bird:+and unpacking bird} from Debian"
apt-get update -qq
if [ ${#missing[@]} -gt 0 ]; then
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
if [ -n "$need_bird" ]; then
  mkdir -p "$cache/debs"
  (cd "$cache/debs" && rm -f ./*.deb && { apt-get download -qq bird bird2 2>/dev/null || apt-get download -qq bird bird2; })
  dpkg-deb -x "$cache"/debs/bird_*.deb "$cache/bird"
  dpkg-deb -x "$cache"/debs/bird2_*.deb "$cache/bird2"
fi
