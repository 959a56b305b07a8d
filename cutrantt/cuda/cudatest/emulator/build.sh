#!/usr/bin/env bash
# Builds the emulated CUDA driver: a shared object with the entry points of
# libcuda.so.1 that runs the kernels of kernels/*.cu on the processor. README.md
# says what for. The kernels are those that kernels/zkernels.go lists, or the one
# in the directory KERNELS. OBJECTS is a directory that keeps compiled sources.
# usage: build.sh OUT.so [CAPABILITY]   72, 80 or 90 (default); JOBS=n in parallel
set -euo pipefail
out=$(realpath -m "$1")
export arch=${2:-90}
: "${CXX:=g++}" "${JOBS:=2}" "${KERNELS:=}" "${OBJECTS:=}"
here=$(cd "$(dirname "$0")" && pwd)
KERNELS=${KERNELS:-$(cd "$here/../../../../kernels" && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CXX here KERNELS OBJECTS tmp
export flags="-std=c++17 -O2 -g1 -fPIC -ffp-contract=off -ftls-model=global-dynamic -fno-extern-tls-init -DCAPABILITY=$arch -D__CUDA_ARCH__=${arch}0 -I$KERNELS -I$here/../../../../kernels -I$here -Wall -Wno-unknown-pragmas -Wno-attributes -Wno-sign-compare"
export checks="-fsanitize=thread --param tsan-instrument-func-entry-exit=0 -fsanitize=shift,bounds,integer-divide-by-zero,float-cast-overflow,signed-integer-overflow,alignment -fno-sanitize=object-size"

# unit compiles one source and registers its kernels with their bounds.
unit() {
  awk -v m="$1" '/\{Name: "/ {on = index($0, "\"" m "\"")} on && /^\t\t"/ {gsub(/[^a-z0-9_]/, ""); print}' "$KERNELS/zkernels.go" > "$tmp/$1.names"
  {
    printf '#include "cuda.h"\n#include "%s.cu"\n' "$1"
    # shellcheck disable=SC2086
    $CXX $flags -DBOUNDS "-D__launch_bounds__(...)=LAUNCH@__VA_ARGS__@" -include cuda.h -x c++ -E -P "$KERNELS/$1.cu" |
      sed -n 's/.*LAUNCH@\(.*\)@ *\([a-z0-9_]*\)(.*/static emulate::Entry entry_\2("\2", \2, \1);/p'
  } > "$tmp/$1.cpp"
  for n in $(cat "$tmp/$1.names"); do
    grep -q "entry_$n(" "$tmp/$1.cpp" || { echo "build.sh: $1.cu has no kernel $n, which zkernels.go lists" >&2; exit 1; }
  done
  compile "$tmp/$1.cpp" "$checks"
}

# compile SOURCE FLAGS makes $tmp/NAME.o. An object in OBJECTS is named by what was compiled,
# macros expanded: branches share what is the same in them.
compile() {
  local name kept=
  name=$(basename "$1" .cpp)
  # shellcheck disable=SC2086
  if [ -n "$OBJECTS" ]; then
    kept="$OBJECTS/$({ echo "$2"; $CXX $flags -E -P "$1"; } | sha256sum | cut -d' ' -f1).o"
    if cp "$kept" "$tmp/$name.o" 2>/dev/null; then return; fi
  fi
  # shellcheck disable=SC2086
  $CXX $flags $2 -c -o "$tmp/$name.o" "$1"
  if [ -n "$kept" ]; then # whole or not at all: builds may run side by side
    cp "$tmp/$name.o" "$kept.$$" && mv "$kept.$$" "$kept"
  fi
}
export -f unit compile
for part in block memory driver; do
  compile "$here/$part.cpp" "-O3 -fno-semantic-interposition" &
done
modules=$(sed -n 's/.*{Name: "\([a-z0-9_]*\)".*/\1/p' "$KERNELS/zkernels.go")
printf '%s\n' $modules | xargs -P "$JOBS" -I{} bash -c 'set -e; unit {}'
wait
mkdir -p "$(dirname "$out")"
"$CXX" -shared -Wl,-soname,libcuda-emulated.so -Wl,--no-undefined -o "$tmp/out.so" "$tmp"/*.o -lpthread -ldl
mv "$tmp/out.so" "$out"
