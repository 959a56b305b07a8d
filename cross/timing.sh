#!/usr/bin/env bash
# Looks for branches and addresses that depend on secrets in samplers, key generation,
# encryption and decryption. A test marks secrets as undefined (package internal/taint), and
# valgrind's memcheck follows them. Valgrind has no AVX-512, so AVX2 and plain Go are run.
# Then it compares times on a fixed secret with times on random ones, with the best code of
# this machine. For that, the machine should be otherwise idle.
# usage: cross/timing.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
  echo "timing: valgrind not found (Debian: apt install valgrind)" >&2
  exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Debian 12's valgrind cannot read DWARF 5. The tag valgrind is Go's own: its runtime tells memcheck of stacks and heap.
GOEXPERIMENT=nodwarf5 go test -tags taint,valgrind -c -o "$dir/secret.test" ./henc/secret
for code in avx2 generic; do
  echo "timing: $code"
  # Without collector and preemption only the code of the test reads secrets.
  (cd henc/secret && CUTRANTT_CPU=$code GOGC=off GODEBUG=asyncpreemptoff=1 \
    valgrind -q --error-limit=no --log-file="$dir/$code.log" "$dir/secret.test" -test.run TestNoSecretBranch -test.v) || {
    cat "$dir/$code.log" >&2
    exit 1
  }
done
echo "timing: statistics"
HENCEDGE_TIMING=1 go test -count=1 -run TestTiming -v ./henc/secret
HENCEDGE_TIMING=1 go test -count=1 -run TestTiming -v ./keyholder
