#!/usr/bin/env bash
# Runs the tests of the CUDA backend on the emulated driver (README.md): the
# suites of cutrantt, henc, henc/bfv and henc/secret, and the evaluator's fallbacks, for the
# branches of the kernels, in several orders of threads, with and without work that
# waits in its stream. At the end every kernel that kernels/zkernels.go lists must have run.
# usage: test.sh [DIR]   the libraries go to DIR (default bin/emulator)
set -euo pipefail
cd "$(dirname "$0")/../../../.."
dir=$(realpath -m "${1:-bin/emulator}")
: "${GO:=go}" "${JOBS:=$(nproc)}"
if ! command -v "${CXX:-g++}" >/dev/null; then
  case ",${HENCEDGE_TEST_REQUIRE:-}," in *,g++,*) echo "test-emulated: no g++" >&2; exit 1 ;; esac
  echo "test-emulated: skipped: the emulator of the kernels needs g++" >&2
  exit 0
fi
mkdir -p "$dir"
# shellcheck source=cross/pool.sh
. cross/pool.sh
OBJECTS=$(mktemp -d) # what the branches have in common is compiled once
trap 'rm -rf "$OBJECTS" "$pool_dir"' EXIT
for arch in 90 80 72; do JOBS=$JOBS OBJECTS=$OBJECTS cutrantt/cuda/cudatest/emulator/build.sh "$dir/libcuda-$arch.so" "$arch"; done
export EMULATE_LAUNCHED="$dir/launched" CUTRANTT_AUTOTUNE=off
: > "$EMULATE_LAUNCHED"

# on ARCH VARIABLE=VALUE... -- ARGUMENTS: go test on one library. A kernel occupies one
# processor, so $JOBS of these run at a time.
on() {
  local arch=$1 set=()
  shift
  while [ "$1" != -- ]; do set+=("$1"); shift; done
  shift
  pool "compute capability ${arch:0:1}.${arch:1} ${set[*]}: $*" env CUTRANTT_CUDA_LIBRARY="$dir/libcuda-$arch.so" CUTRANTT_TEST_REQUIRE=cuda "${set[@]}" \
    "$GO" test -short -count=1 -timeout 20m "$@"
}
# The longest first, so that no processor waits for the last.
on 90 EMULATE_ORDER=backward EMULATE_STREAMS=late -- ./cutrantt/cuda
on 80 EMULATE_ORDER=forward EMULATE_CAPABILITY=87 EMULATE_STREAMS=late -- ./cutrantt/cuda
on 90 EMULATE_ORDER=backward EMULATE_STREAMS=late -- -run '^Test.*/^cuda$' ./cutrantt/conformance
on 90 EMULATE_ORDER=2 CUTRANTT_TEST_BACKEND=cuda -- -run 'GPU|Encrypt|Secret|Seed|Operations|Hoisting|Methods|Batches|Transforms|Key|Share|Wipe' ./henc ./henc/secret
on 90 EMULATE_ORDER=backward EMULATE_STREAMS=late -- -run GPU ./henc/bfv
on 90 CUTRANTT_CUDA_GRAPHS=on EMULATE_ORDER=3 EMULATE_STREAMS=late -- -run '^Test(SwitchKeys|DivRounds)/^cuda$' ./cutrantt/conformance
on 90 EMULATE_STREAMS=late -- -run 'FallbackOnGPU|SeveralGPUs' ./evaluator
on 90 EMULATE_STREAMS=late -- -run OnGPU ./evaluator/engine
on 80 EMULATE_ORDER=1 -- -run '^Test.*/^cuda$' -skip '^TestEncrypting$' ./cutrantt/conformance
on 80 EMULATE_ORDER=backward EMULATE_CAPABILITY=86 EMULATE_SHARED=32 -- -run '^Test(Required|Blocks)/^cuda$' ./cutrantt/conformance
on 72 EMULATE_ORDER=3 EMULATE_STREAMS=late -- -run '^Test(Required|Extend|DivRound|DivRounds|SwitchKeys|Integers|Memory|Transform)/^cuda$' ./cutrantt/conformance

pool_wait

missing=$(comm -23 <(sed -n 's/^\t\t"\([a-z0-9_]*\)",$/\1/p' kernels/zkernels.go | sort) <(sort -u "$EMULATE_LAUNCHED"))
if [ -n "$missing" ]; then
  echo "test-emulated: kernels that no test ran:" $missing >&2
  exit 1
fi
