#!/usr/bin/env bash
# Unpacks the packages of the toolbox image, as images/toolbox.lock has them, from the Debian
# suite this machine is set to:
#
#   toolbox.sh [--or-today] ARCH...   unpack them (this machine's architecture among them)
#   toolbox.sh --lock ARCH...         write the lock anew: what images/toolbox.packages and all
#                                     they need are today
#
# A package with another checksum than the lock's is always refused. A version that Debian no longer
# has is refused too, but with --or-today today's packages are taken instead, which do for a test and
# not for a release. apt gets a state of its own: nothing is installed here and no
# architecture is added. Where apt looks is as /etc/apt or $APT_CONFIG has it.
set -euo pipefail
export LC_ALL=C
umask 022
cd "$(dirname "$0")/.."
cache=${CALICO_PROBE_CACHE:-$PWD/.cache}/toolbox
lock=images/toolbox.lock
mode=
case "${1-}" in
  --or-today | --lock) mode=$1; shift ;;
esac
command -v apt-get >/dev/null || { echo "toolbox: apt-get is missing: this needs Debian" >&2; exit 1; }

# for_arch makes an empty state of apt's for an architecture and reads what Debian has today.
for_arch() {
  arch=$1 apt=$cache/apt-$1
  rm -rf "$apt"
  mkdir -p "$apt"/{lists,archives}/partial
  : >"$apt/status"
  get=(apt-get -qq -y -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o APT::Sandbox::User=root -o "Dir::State=$apt"
    -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o Acquire::Languages=none -o Acquire::ForceHash=sha256)
  "${get[@]}" update
}

# resolved lists the packages of today and all they need, as the lock has them.
resolved() {
  xargs "${get[@]}" install --print-uris --no-install-recommends <images/toolbox.packages | awk -v arch="$arch" '{
    split($2, part, "_"); version = part[2]; gsub(/%3a/, ":", version); sub(/^SHA256:/, "", $4)
    print arch, part[1], version, $4, $2 }' | sort
}

if [ "$mode" = --lock ]; then
  {
    echo "# What the toolbox image is made of, as Debian had it on $(date -u +%F): architecture, package, version, SHA-256, file."
    echo "# Written by 'make toolbox-lock'; do not edit."
    for a in "$@"; do
      for_arch "$a"
      resolved
    done
  } >"$lock.new"
  mv "$lock.new" "$lock"
  exit
fi

# download fetches what the lock names, or says what Debian no longer has.
download() {
  local wanted=() missing=() p v
  while read -r _ p v _; do wanted+=("$p=$v"); done <"$apt/lock"
  if (cd "$apt/archives" && "${get[@]}" download "${wanted[@]}") 2>"$apt/said"; then
    return
  fi
  for p in "${wanted[@]}"; do
    "${get[@]}" download --print-uris "$p" >/dev/null 2>&1 || missing+=("$p")
  done
  if [ ${#missing[@]} -eq 0 ]; then # something else is wrong
    cat "$apt/said" >&2
    exit 1
  fi
  if [ "$mode" != --or-today ]; then
    echo "toolbox: Debian no longer has for $arch: ${missing[*]}; run 'make toolbox-lock' for the versions of today," \
      "or point apt at snapshot.debian.org as of the day in $lock" >&2
    exit 1
  fi
  echo "toolbox: WARNING: Debian no longer has for $arch: ${missing[*]}; the toolbox is made of today's packages and is not for a release" >&2
  rm -f "$apt"/archives/*.deb
  resolved >"$apt/lock"
  wanted=()
  while read -r _ p v _; do wanted+=("$p=$v"); done <"$apt/lock"
  (cd "$apt/archives" && "${get[@]}" download "${wanted[@]}")
  today=" today"
}

made=$(cat images/toolbox.packages "$lock" scripts/toolbox.sh | sha256sum)
todo=()
for a in "$@"; do
  have=$(cat "$cache/$a.made" 2>/dev/null || true)
  [ "$have" = "$made" ] || [ "$mode $have" = "--or-today $made today" ] || todo+=("$a")
done
[ ${#todo[@]} -gt 0 ] || exit 0
for a in "${todo[@]}"; do
  echo "from Debian: unpacking the toolbox for $a"
  rm -rf "${cache:?}/$a" "$cache/$a".*
  for_arch "$a"
  root=$cache/$a today=
  grep "^$arch " "$lock" >"$apt/lock" || { echo "toolbox: $lock has nothing for $arch: run 'make toolbox-lock'" >&2; exit 1; }
  download
  if ! awk '{ print $4 "  " $5 }' "$apt/lock" | (cd "$apt/archives" && sha256sum --check --quiet --strict) >&2; then
    echo "toolbox: a package for $arch is not what $lock says: do not use it" >&2
    exit 1
  fi

  # Debian has /bin and its like as links into /usr; dpkg follows them.
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,root,tmp,var/lib/dpkg,run,proc,sys,dev,host}
  for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
  for deb in "$apt"/archives/*.deb; do
    # What scanners read. It names all packages, also those of which little is kept.
    dpkg-deb -f "$deb" | sed '1a Status: install ok installed' >>"$root/var/lib/dpkg/status"
    echo >>"$root/var/lib/dpkg/status"
    # Perl, PAM and dpkg are needed to install the rest, not to use it.
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --no-same-owner --wildcards \
      --exclude './usr/share/man/*' --exclude './usr/share/info/*' --exclude './usr/share/locale/*' \
      --exclude './usr/share/lintian/*' --exclude './usr/share/bash-completion/*' --exclude './usr/share/bug/*' \
      --exclude './usr/share/perl*/*' --exclude './usr/bin/perl*' --exclude './usr/lib/*/perl*' --exclude './usr/lib/*/libperl*' \
      --exclude './usr/bin/dpkg*' --exclude './usr/lib/*/gconv/*' --exclude './lib/*/security/*' --exclude './lib/systemd/*'
  done
  # Of what is written about them only under which terms they may be handed on.
  find "$root/usr/share/doc" -mindepth 2 ! -type d ! -name copyright -delete
  find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
  rm -rf "$apt"

  # What the packages' own scripts would have done.
  for p in iptables ip6tables; do
    for s in '' -save -restore; do ln -sf "$p-nft$s" "$root/usr/sbin/$p$s"; done
  done
  ln -sf bash "$root/usr/bin/sh"
  ln -sf vim.tiny "$root/usr/bin/vi"
  ln -sf kdig "$root/usr/bin/dig"
  cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
  printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  echo "$made$today" >"$cache/$a.unpacked"
done
# Busybox has what there is no better program for; the list is the same for every one.
applets=$("$cache/$(dpkg --print-architecture)/usr/bin/busybox" --list)
for a in "${todo[@]}"; do
  for p in $applets; do
    [ -e "$cache/$a/usr/bin/$p" ] || [ -e "$cache/$a/usr/sbin/$p" ] || ln -sf busybox "$cache/$a/usr/bin/$p"
  done
  mv "$cache/$a.unpacked" "$cache/$a.made"
done
