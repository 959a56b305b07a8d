#!/usr/bin/env bash
# Builds hencedge for every supported platform, in four variants: with GPU support (no
# cgo, but linked against glibc, which opens the GPU's driver) or fully static without it;
# for every role, or for evaluators alone (hencedge-evaluator-...) without code for secret
# keys. Programs for arm64 are for boards: they have no broker (nobroker), which only the
# demo starts, and no database of results (nostore), which only key holders need. Those get
# one more program for arm64, hencedge-keyholder-..., static and with the database.
# usage: cross/build.sh OUTDIR [LDFLAGS]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: cross/build.sh OUTDIR [LDFLAGS]}
ldflags=${2:-"-s -w"}
mkdir -p "$out"
# interpreter reports whether an ELF file asks for a dynamic linker (PT_INTERP).
interpreter() { LC_ALL=C grep -aqE '/lib(64)?/ld-linux-[a-z0-9-]+\.so\.[0-9]' <(head -c 65536 "$1"); }
for arch in amd64 arm64; do
  for role in "" -evaluator; do
    for kind in gpu static; do
      bin=$out/hencedge$role-linux-$arch
      tags=
      if [ -n "$role" ]; then
        tags=evaluatoronly
      elif [ "$arch" = arm64 ]; then
        tags=nobroker,nostore
      fi
      if [ "$kind" = static ]; then
        bin+=-static
        tags+=${tags:+,}nogpu
      fi
      CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -tags "$tags" -trimpath -ldflags "$ldflags" -o "$bin" ./cmd/hencedge
      if [ -n "$role" ]; then cross/no-secrets.sh "$bin"; fi
      if interpreter "$bin"; then linked="needs glibc"; else linked="static"; fi
      printf '%s\t%s bytes\t%s\n' "$bin" "$(stat -c %s "$bin")" "$linked"
      if [ "$kind" = static ] && [ "$linked" != static ]; then
        echo "build: $bin is not static: a package other than the GPU backend links a C library" >&2
        exit 1
      fi
    done
  done
done
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -tags nobroker,nogpu -trimpath -ldflags "$ldflags" \
  -o "$out/hencedge-keyholder-linux-arm64-static" ./cmd/hencedge
# The licences of everything that is linked. Each program prints them too (version --licenses).
cp LICENSE "$out/LICENSE"
cp cmd/hencedge/internal/licenses/zlicenses.txt "$out/THIRD-PARTY-LICENSES.txt"
# The binaries with GPU support must hold the kernels of every board, the others none.
HENCEDGE_TEST_BINARIES=$(cd "$out" && pwd) go test -count=1 -run TestBinaries ./kernels
