#!/usr/bin/env bash
# Builds the static hencedge binary for every platform that is supported.
# usage: cross/build.sh OUTDIR [LDFLAGS]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: cross/build.sh OUTDIR [LDFLAGS]}
ldflags=${2:-"-s -w"}
mkdir -p "$out"
for arch in amd64 arm64; do
  bin=$out/hencedge-linux-$arch
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -ldflags "$ldflags" -o "$bin" ./cmd/hencedge
  printf '%s\t%s bytes\n' "$bin" "$(stat -c %s "$bin")"
done
