#!/usr/bin/env bash
# Builds the arm64 test binary of each package and runs it under qemu-user. With --program
# it also runs the program itself: the whole demo, and commands of an operator.
# usage: cross/emulate.sh [--program] PACKAGE...
# $JOBS of them run at a time.
# The binaries are static (-tags nogpu), as there is no arm64 C library here.
# Emulation is 10 to 20 times slower than the machine itself, so the tests run with -short,
# which leaves out most of the large rings, and the reference is not compared with itself.
# The conformance suite must run the NEON code as well as plain Go.
set -euo pipefail
cd "$(dirname "$0")/.."
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if [ -z "$qemu" ]; then
  echo "emulate: qemu-aarch64 not found: install qemu-user-static (Debian) or qemu-user" >&2
  exit 1
fi
work=$(mktemp -d)
# shellcheck source=cross/pool.sh
. cross/pool.sh
trap 'rm -rf "$work" "$pool_dir"' EXIT
# program runs the program itself.
program() {
  hencedge() { "$qemu" "$work/hencedge" "$@"; }
  hencedge version | grep linux/arm64
  for file in config/examples/agent*.yaml; do hencedge agent check --no-files -c "$file"; done
  hencedge evaluator check --no-keys -c config/examples/evaluator.yaml
  hencedge doctor
  hencedge demo --windows 1 --json >"$work/demo"
  tail -n 1 "$work/demo" | grep '"type":"summary","ok":true'
}
# tests PACKAGE BINARY CORE
tests() {
  cd "$1"
  CUTRANTT_TEST_REQUIRE=reference,cpu,neon,generic "$qemu" -cpu "$3" "$2" -test.short -test.skip '^Test.*/^reference$' -test.timeout 30m
}
if [ "${1:-}" = --program ]; then
  shift
  CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -tags nogpu -trimpath -o "$work/hencedge" ./cmd/hencedge
  pool "hencedge (arm64, $(basename "$qemu"))" program
fi
for pkg in "$@"; do
  test=$work/${pkg//\//_}.test
  CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go test -c -tags nogpu -o "$test" "$pkg"
  [ -e "$test" ] || { echo "emulate: $pkg has no tests" >&2; exit 1; }
  cores=(max)
  case $pkg in
    ./cutrantt/cpu | ./cutrantt/prng) cores+=(cortex-a72) ;; # the vector code on a core of Armv8.0
  esac
  for core in "${cores[@]}"; do
    pool "$pkg (arm64, $(basename "$qemu") -cpu $core)" tests "$pkg" "$test" "$core"
  done
done
pool_wait
