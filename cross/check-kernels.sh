#!/usr/bin/env bash
# Fails if the files in kernels/ do not match each other: the compiled images and the
# sources must have the hashes that zkernels.go states. If the compiler that made the
# images is found (NVCC, or nvcc in PATH; cross/cuda-toolkit.sh gets it), they are
# compiled again and must be the same.
# usage: cross/check-kernels.sh
set -euo pipefail
NVCC=$(realpath "$(command -v "${NVCC:-nvcc}" || true)" 2>/dev/null || true)
cd "$(dirname "$0")/../kernels"
stated() { sed -n "s/^[[:space:]]*$1 *= \"\(.*\)\"\$/\1/p" zkernels.go; }

images=$(sha256sum <kernels.bin | cut -d' ' -f1)
if [ "$images" != "$(stated ImageHash)" ]; then
  echo "check-kernels: kernels.bin has the hash $images, zkernels.go states $(stated ImageHash): run make kernels" >&2
  exit 1
fi
sources=$(LC_ALL=C; cat *.cuh *.cu | sha256sum | cut -d' ' -f1)
if [ "$sources" != "$(stated SourceHash)" ]; then
  echo "check-kernels: the sources have the hash $sources, the images were made from $(stated SourceHash): run make kernels" >&2
  exit 1
fi

have=none
if [ -x "$NVCC" ]; then
  export NVCC
  have="$("$NVCC" --version | sed -n 's/.*release.*, V/nvcc /p')"
fi
if [ "$have" != "$(stated Compiler)" ]; then
  echo "check-kernels: hashes agree; not compiled again: that needs $(stated Compiler) (cross/cuda-toolkit.sh DIR, then NVCC=DIR/bin/nvcc), found $have"
  exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/kernels"
cp ./*.cu ./*.cuh build.sh "$tmp/kernels/"
read -ra archs <<<"$(stated Architectures)"
"$tmp/kernels/build.sh" "${archs[@]}"
for f in kernels.bin zkernels.go; do
  cmp "$f" "$tmp/kernels/$f" || { echo "check-kernels: $f is not what kernels/build.sh ${archs[*]} makes" >&2; exit 1; }
done
echo "check-kernels: $have makes the same images"
