#!/usr/bin/env bash
# Unpacks the packages of the toolbox image, with all they need, from the Debian suite
# this machine is set to: toolbox.sh [--refresh] ARCH... (this machine's among them). apt
# gets a state of its own: nothing is installed here and no architecture is added.
# Versions are those the suite has when it is done, which with --refresh is now; else what
# is here is left as it is. The list of them lies beside.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${CALICO_PROBE_CACHE:-$PWD/.cache}/toolbox
made=$(cat images/toolbox.packages scripts/toolbox.sh | sha256sum)
if [ "${1-}" = --refresh ]; then
  shift
  rm -f "$cache"/*.made
fi
todo=()
for arch in "$@"; do
  [ "$(cat "$cache/$arch.made" 2>/dev/null)" = "$made" ] || todo+=("$arch")
done
[ ${#todo[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "toolbox: needs Debian's apt-get" >&2; exit 1; }
for arch in "${todo[@]}"; do
  echo "from Debian: unpacking the toolbox for $arch"
  root=$cache/$arch apt=$cache/apt-$arch
  rm -rf "$root" "$apt" "$cache/$arch".*
  mkdir -p "$apt"/{lists,archives}/partial
  : >"$apt/status"
  get=(apt-get -qq -y -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o APT::Sandbox::User=root -o "Dir::State=$apt"
    -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o Acquire::Languages=none)
  "${get[@]}" update
  xargs "${get[@]}" install --download-only --no-install-recommends <images/toolbox.packages >/dev/null

  # Debian has /bin and its like as links into /usr; dpkg follows them.
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,root,tmp,var,run,proc,sys,dev,host}
  for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
  for deb in "$apt"/archives/*.deb; do
    dpkg-deb -W "$deb" >>"$cache/$arch.list"
    # Perl, PAM and dpkg are needed to install the rest, not to use it.
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --no-same-owner --wildcards \
      --exclude './usr/share/man/*' --exclude './usr/share/info/*' --exclude './usr/share/locale/*' \
      --exclude './usr/share/lintian/*' --exclude './usr/share/bash-completion/*' --exclude './usr/share/bug/*' \
      --exclude './usr/share/perl*/*' --exclude './usr/bin/perl*' --exclude './usr/lib/*/perl*' --exclude './usr/lib/*/libperl*' \
      --exclude './usr/bin/dpkg*' --exclude './usr/lib/*/gconv/*' --exclude './lib/*/security/*' --exclude './lib/systemd/*'
  done
  # Of what is written about them only under which terms they may be handed on, and the
  # licences that this refers to.
  find "$root/usr/share/doc" -mindepth 2 ! -type d ! -name copyright -delete
  find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
  (cd "$apt" && "${get[@]}" download base-files)
  dpkg-deb --fsys-tarfile "$apt"/base-files_*.deb | tar -x -C "$root" --no-same-owner ./usr/share/common-licenses
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
done
# Busybox has what there is no better program for; the list is the same for every one.
applets=$("$cache/$(dpkg --print-architecture)/usr/bin/busybox" --list)
for arch in "${todo[@]}"; do
  for a in $applets; do
    [ -e "$cache/$arch/usr/bin/$a" ] || [ -e "$cache/$arch/usr/sbin/$a" ] || ln -sf busybox "$cache/$arch/usr/bin/$a"
  done
  echo "$made" >"$cache/$arch.made"
done
