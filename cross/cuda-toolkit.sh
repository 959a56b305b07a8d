#!/usr/bin/env bash
# Unpacks the CUDA compiler that makes the kernels (nvcc 12.4) into a directory of its own,
# from Debian 13's non-free packages, on Debian 12 or 13 (amd64). Nothing else of the
# system changes: no package is installed, and apt uses separate sources, lists and cache,
# which are deleted. Downloads 1.0 GB and keeps 0.2 GB.
# usage: cross/cuda-toolkit.sh DIR     then: NVCC=DIR/bin/nvcc make kernels
# DEBIAN_MIRROR: another mirror, or a date of snapshot.debian.org.
set -euo pipefail
[ $# = 1 ] || { echo "usage: cross/cuda-toolkit.sh DIR" >&2; exit 2; }
: "${DEBIAN_MIRROR:=http://deb.debian.org/debian}"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "cuda-toolkit: needs an amd64 machine" >&2; exit 1; }
[ -e "$keyring" ] || { echo "cuda-toolkit: $keyring is missing: install debian-archive-keyring" >&2; exit 1; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
tmp=$(mktemp -d "$dir/.download.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

mkdir -p "$tmp"/{lists,cache/archives}/partial
echo "deb [signed-by=$keyring] $DEBIAN_MIRROR trixie non-free" > "$tmp/sources.list"
cat > "$tmp/apt.conf" <<CONF
Dir::Etc::sourcelist "$tmp/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$tmp/lists";
Dir::Cache "$tmp/cache";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
CONF
export APT_CONFIG="$tmp/apt.conf"
apt-get -q update

# get NAME VERSION SHA256 PATH...: downloads a package and unpacks those paths.
get() {
  local name=$1 version=$2 sum=$3
  shift 3
  (cd "$tmp" && apt-get -q download "$name=$version")
  local deb=("$tmp/${name}_"*.deb)
  echo "$sum  ${deb[0]}" | sha256sum --check --quiet
  dpkg --fsys-tarfile "${deb[0]}" | tar -x -C "$dir" "$@"
  rm "${deb[0]}"
}
get nvidia-cuda-toolkit 12.4.131~12.4.1-2 cd5fe85aee38d108b315f408a688641478f2402622a10c677478eb7a6c4e5319 \
  ./usr/bin ./usr/lib/nvidia-cuda-toolkit ./etc/nvcc.profile
get nvidia-cuda-dev 12.4.127~12.4.1-2 d846838f914a0176948d48a8bcade5d6dbcccb5c9374343f6475f5503f173ee0 \
  ./usr/include ./usr/lib/x86_64-linux-gnu/libcudart_static.a ./usr/lib/x86_64-linux-gnu/libcudadevrt.a

# nvcc reads the profile beside it. Debian's is a link to /etc and has the paths of an
# installed package.
bin="$dir/usr/lib/nvidia-cuda-toolkit/bin"
rm -f "$bin/nvcc.profile"
cat > "$bin/nvcc.profile" <<PROFILE
NVVMIR_LIBRARY_DIR = $dir/usr/lib/nvidia-cuda-toolkit/libdevice
PATH += $bin:$dir/usr/bin:
INCLUDES += -I$dir/usr/include
LIBRARIES =+ \$(_SPACE_) -L$dir/usr/lib/x86_64-linux-gnu
PROFILE

# The tools by name, and nvcc with its own assembler first in PATH.
mkdir -p "$dir/bin"
for tool in cuobjdump nvdisasm fatbinary ptxas; do
  [ ! -e "$dir/usr/bin/$tool" ] || ln -sf "../usr/bin/$tool" "$dir/bin/$tool"
done
cat > "$dir/bin/nvcc" <<WRAPPER
#!/bin/sh
export PATH="$bin:$dir/usr/bin:\$PATH"
exec "$bin/nvcc" "\$@"
WRAPPER
chmod +x "$dir/bin/nvcc"

printf 'extern "C" __global__ void probe(int *x) { *x = 1; }\n' > "$tmp/probe.cu"
ccbin=$(command -v g++-12 || command -v g++-11 || command -v g++-13 || true)
if [ -n "$ccbin" ]; then
  "$dir/bin/nvcc" -ccbin "$ccbin" -arch=sm_90 -cubin -o "$tmp/probe.cubin" "$tmp/probe.cu"
else
  echo "cuda-toolkit: nvcc needs g++-12 (or 11, 13) beside it: apt-get install g++-12" >&2
fi
"$dir/bin/nvcc" --version | grep release
