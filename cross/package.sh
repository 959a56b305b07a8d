#!/usr/bin/env bash
# Builds the Debian packages for linux/amd64 and linux/arm64 into OUTDIR. The same
# commit gives the same bytes: dates are $SOURCE_DATE_EPOCH, by default the
# commit's.
# usage: cross/package.sh OUTDIR VERSION [ARCH...]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: cross/package.sh OUTDIR VERSION [ARCH...]}
version=${2:?usage: cross/package.sh OUTDIR VERSION [ARCH...]}
shift 2
arches=${*:-amd64 arm64}

# nfpm is pinned so that a new release cannot change the packages of an old commit.
nfpm_version=v2.43.1

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# v1.2.3 is 1.2.3; without a tag, 0~COMMIT sorts below every release.
PACKAGE_VERSION=${version#v}
case $PACKAGE_VERSION in [0-9]*.*) PACKAGE_VERSION=${PACKAGE_VERSION//-/+} ;; *) PACKAGE_VERSION=0~$SOURCE_DATE_EPOCH.${PACKAGE_VERSION//-/.} ;; esac

STAGE=$(mktemp -d)
DIST=$out
trap 'rm -rf "$STAGE"' EXIT
mkdir -p "$out" "$STAGE/doc/docs"
export SOURCE_DATE_EPOCH TZ=UTC
umask 022

ldflags="-s -w -X main.version=$version"
CGO_ENABLED=0 go build -tags nogpu -trimpath -ldflags "$ldflags" -o "$STAGE/hencedge" ./cmd/hencedge
"$STAGE/hencedge" package-files "$STAGE"
cp README.md "$STAGE/doc/"
cp docs/*.md "$STAGE/doc/docs/" # so that the links between the pages hold
gzip -9 -n -c CHANGELOG.md >"$STAGE/doc/CHANGELOG.md.gz"
printf 'hencedge (%s) unstable; urgency=medium\n\n  * What has changed is in CHANGELOG.md.gz.\n\n -- %s  %s\n' \
  "$PACKAGE_VERSION" "$(sed -n 's/^maintainer: //p' cross/package/nfpm.yaml)" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9 -n -c >"$STAGE/doc/changelog.gz"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: hencedge\nSource: https://github.com/hencedge/hencedge\n\n'
  printf 'Files: *\nCopyright: %s the hencedge authors\nLicense: Apache-2.0\n On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\nComment: The licences of the modules linked into the program are in\n third-party-licenses.gz.\n' "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)"
} >"$STAGE/doc/copyright"

# The licences of what is linked into the program, for the architecture that links
# most; a module without one is an error.
{
  printf '# Licences of the software that hencedge is built with\n\n## The Go standard library and runtime\n\n'
  cat "$(go env GOROOT)/LICENSE"
  GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/hencedge |
    LC_ALL=C sort -u | while read -r path ver dir; do
    files=$(find "$dir" -maxdepth 1 -type f \( -iname 'LICENSE*' -o -iname 'LICENCE*' -o -iname 'COPYING*' -o -iname 'NOTICE*' -o -iname 'edl-v*' \) | LC_ALL=C sort)
    [ -n "$files" ] || { echo "package: $path has no licence file" >&2; exit 1; }
    printf '\n## %s %s\n\n' "$path" "$ver"
    for f in $files; do cat "$f"; done
  done
} >"$STAGE/licenses"
gzip -9 -n -c "$STAGE/licenses" >"$STAGE/doc/third-party-licenses.gz"

for ARCH in $arches; do
  CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH go build -trimpath -ldflags "$ldflags" -o "$out/hencedge-linux-$ARCH" ./cmd/hencedge
  sed -e "s|\${ARCH}|$ARCH|g; s|\${PACKAGE_VERSION}|$PACKAGE_VERSION|g; s|\${MTIME}|$MTIME|g; s|\${STAGE}|$STAGE|g; s|\${DIST}|$DIST|g" \
    cross/package/nfpm.yaml >"$STAGE/nfpm.yaml"
  go run "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version" package --config "$STAGE/nfpm.yaml" --packager deb \
    --target "$out/hencedge_${PACKAGE_VERSION}_$ARCH.deb" >"$STAGE/log" || { cat "$STAGE/log" >&2; exit 1; }
  printf '%s\t%s bytes\n' "$out/hencedge_${PACKAGE_VERSION}_$ARCH.deb" "$(stat -c %s "$out/hencedge_${PACKAGE_VERSION}_$ARCH.deb")"
done

# A package holds its own architecture's program, and all packages the same files.
command -v dpkg-deb >/dev/null || exit 0
for ARCH in $arches; do
  deb=$out/hencedge_${PACKAGE_VERSION}_$ARCH.deb
  case $ARCH in amd64) machine='3e 00' ;; arm64) machine='b7 00' ;; *) machine= ;; esac
  dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/bin/hencedge >"$STAGE/program"
  found=$(od -An -tx1 -j18 -N2 "$STAGE/program")
  [ -z "$machine" ] || [ "${found# }" = "$machine" ] || { echo "package: the program in $deb is for ELF machine$found" >&2; exit 1; }
  dpkg-deb -c "$deb" | awk '{print $1, $2, $6}' >"$STAGE/list.$ARCH"
  cmp "$STAGE/list.$ARCH" "$STAGE/list.${arches%% *}"
done
