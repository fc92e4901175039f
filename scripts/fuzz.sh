#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME and stops at the first that fails. The targets are found: each
# function Fuzz... in the test files of each package.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
go list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}' ./... |
while read -r package file; do
  for target in $(sed -nE 's/^func (Fuzz\w+)\(.*/\1/p' "$file"); do
    echo "fuzz $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-5000x}" -fuzzminimizetime 1s "$package" >"$log" 2>&1 </dev/null || { cat "$log"; exit 1; }
  done
done
