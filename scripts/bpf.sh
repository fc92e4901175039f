#!/usr/bin/env bash
# Compiles the programs for the kernel: scripts/bpf.sh [FILE], else to where it is committed. The same sources give the
# same bytes with this clang, that of Debian 12, and its headers; one object serves amd64 and arm64 (little-endian).
set -euo pipefail
cd "$(dirname "$0")/../probe/skbdrop/bpf"
out=${1:-../skbdrop.o}
for p in clang-14 llvm-strip-14; do
  command -v $p >/dev/null || { echo "bpf: needs $p: run 'make tools' on Debian 12" >&2; exit 1; }
done
clang-14 -target bpf -mcpu=v3 -O2 -g -fdebug-compilation-dir=. -Wall -Wextra -Werror \
  -isystem "/usr/include/$(uname -m)-linux-gnu" -c skbdrop.c -o "$out"
llvm-strip-14 -g "$out"
