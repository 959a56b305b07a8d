#!/usr/bin/env bash
# Builds the files of a release page into OUTDIR, for linux/amd64 and linux/arm64:
#   - archives of the program and of its static build, each also for evaluators alone, and
#     one of the static program with a database for key holders on arm64;
#   - the Debian and RPM packages;
#   - container images of the static programs, of the whole one and of the evaluator alone, for
#     both architectures in one archive (only without ARCH);
#   - a bill of materials (CycloneDX) of each program;
#   - SHA256SUMS of all these files.
# The same commit gives the same bytes: dates are $SOURCE_DATE_EPOCH, by default the
# commit's. The programs themselves are built in $BUILD_DIR, by default dist.
# With --pack the programs in $BUILD_DIR are packed instead of being built again.
# usage: cross/release.sh [--pack] OUTDIR VERSION [ARCH...]
set -euo pipefail
cd "$(dirname "$0")/.."
pack=
if [ "${1:-}" = --pack ]; then pack=1 && shift; fi
out=${1:?usage: cross/release.sh [--pack] OUTDIR VERSION [ARCH...]}
version=${2:?usage: cross/release.sh [--pack] OUTDIR VERSION [ARCH...]}
shift 2
arches=${*:-amd64 arm64}
build=${BUILD_DIR:-dist}

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# Files of an earlier run must not get into the list of checksums.
mkdir -p "$out"
rm -f "$out"/hencedge* "$out"/SHA256SUMS

[ -n "$pack" ] || cross/build.sh "$build" "-s -w -X main.version=$version"
# shellcheck disable=SC2086 # a list of words
BUILD_DIR=$build cross/package.sh "$out" "$version" $arches

# archive NAME PROGRAM packs a program with its licences and its first pages.
archive() {
  local dir=$stage/$1
  mkdir "$dir"
  install -m 755 "$2" "$dir/hencedge"
  install -m 644 "$build/LICENSE" "$build/THIRD-PARTY-LICENSES.txt" README.md CHANGELOG.md SECURITY.md "$dir/"
  mkdir -p "$dir/docs/lab"
  install -m 644 docs/*.md "$dir/docs/"
  install -m 644 docs/lab/*.md "$dir/docs/lab/"
  cp -r config/examples "$dir/"
  chmod -R u=rwX,go=rX "$dir"
  tar -C "$stage" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$1" |
    gzip -n -6 >"$out/$1.tar.gz"
  rm -r "$dir"
}

for arch in $arches; do
  for name in hencedge hencedge-evaluator; do
    for kind in "" -static; do
      archive "${name}_${version#v}_linux-$arch$kind" "$build/$name-linux-$arch$kind" &
    done
    go run ./cmd/hencedge/internal/licenses/sbom "$build/$name-linux-$arch" "$name" "$version" >"$out/${name}_${version#v}_linux-$arch.cdx.json"
    if [ "$name $arch" = "hencedge arm64" ]; then
      archive "hencedge-keyholder_${version#v}_linux-arm64-static" "$build/hencedge-keyholder-linux-arm64-static" &
    fi
    for job in $(jobs -p); do wait "$job"; done
  done
done

# The program for boards has no database; that for key holders on arm64 has one.
image() {
  local name=$1
  shift
  go run ./cross/image -out "$out/${name}_${version#v}_image.tar" -name "$name" -version "$version" \
    -revision "$(git rev-parse HEAD 2>/dev/null || true)" -created "$SOURCE_DATE_EPOCH" \
    -file licenses/LICENSE="$build/LICENSE" -file licenses/THIRD-PARTY-LICENSES.txt="$build/THIRD-PARTY-LICENSES.txt" "$@"
}
if [ "$arches" = "amd64 arm64" ]; then
  image hencedge amd64="$build/hencedge-linux-amd64-static" arm64="$build/hencedge-keyholder-linux-arm64-static"
  image hencedge-evaluator amd64="$build/hencedge-evaluator-linux-amd64-static" arm64="$build/hencedge-evaluator-linux-arm64-static"
fi

(cd "$out" && sha256sum hencedge* >SHA256SUMS && sha256sum --quiet -c SHA256SUMS)
(cd "$out" && stat -c '%n	%s bytes' -- *)
