#!/usr/bin/env bash
# Runs compute-sanitizer (memcheck, racecheck, initcheck) over the conformance suite on
# this machine's GPU, with every kernel once.
# usage: cross/sanitize-gpu.sh [BINARY [DIRECTORY]]
# For a machine without Go, BINARY is the suite, compiled elsewhere (CGO_ENABLED=0 go test -c
# ./cutrantt/conformance). Without it the suite is compiled here. Logs go to DIRECTORY, by
# default a temporary one. Each sanitizer keeps one processor busy, so the suite runs in six
# parts side by side: about two minutes with 18 processors.
# memcheck and racecheck cannot follow thousands of launches: they then report an internal error
# as an error or a hazard. The Hadamard method is therefore not measured, and encryptions are
# four parts.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=${1:+$(realpath "$1")} logs=${2:-}
[ -n "$logs" ] || logs=$(mktemp -d)
mkdir -p "$logs"
logs=$(realpath "$logs")
command -v compute-sanitizer > /dev/null || { echo "sanitize-gpu: compute-sanitizer not found: it comes with the CUDA toolkit" >&2; exit 1; }
if [ -z "$binary" ]; then
  binary=$logs/conformance.test
  (cd "$root" && CGO_ENABLED=0 "${GO:-go}" test -c -o "$binary" ./cutrantt/conformance)
fi
export CUTRANTT_TEST_REQUIRE=cuda CUTRANTT_AUTOTUNE=off
cd "$root/cutrantt/conformance"

fused='TestSwitchKeys|TestOneKey|TestMulTensor|TestDivRounds'
declare -A part=(
  [encrypt-small]="-test.run ^TestEncrypting\$/^cuda\$/2.10/n2=[124]\$"
  [encrypt-small-wide]="-test.run ^TestEncrypting\$/^cuda\$/2.10/n2=(8|16)\$"
  [encrypt]="-test.run ^TestEncrypting\$/^cuda\$/2.1[12]"
  [encrypt-large]="-test.run ^TestEncrypting\$/^cuda\$/2.1[3-9]"
  [fused]="-test.run ^($fused)\$/^cuda\$"
  [rest]="-test.run ^Test.*/^cuda\$ -test.skip ^(TestEncrypting|$fused)\$"
)
declare -A job
for tool in memcheck racecheck initcheck; do
  for p in "${!part[@]}"; do
    # shellcheck disable=SC2086 # the words of a part are arguments
    compute-sanitizer --tool "$tool" --print-limit 20 --error-exitcode 9 "$binary" -test.v -test.short ${part[$p]} > "$logs/$tool-$p.log" 2>&1 &
    job[$tool-$p]=$!
  done
done
failed=0
for name in $(printf '%s\n' "${!job[@]}" | sort); do
  rc=0
  wait "${job[$name]}" || rc=$?
  passed=$(grep -c '^ *--- PASS: .*/cuda ' "$logs/$name.log" || true)
  echo "$name: exit $rc, $passed tests on the GPU, $(grep 'SUMMARY' "$logs/$name.log" || echo 'no summary')"
  if [ $rc -ne 0 ] || [ "$passed" -eq 0 ] || ! grep -Eq 'SUMMARY: 0 (errors|hazards)' "$logs/$name.log"; then
    failed=1
    grep '^=====' "$logs/$name.log" | head -n 20 || true
  fi
done
[ $failed -eq 0 ] || { echo "sanitize-gpu: failed; logs are in $logs" >&2; exit 1; }
