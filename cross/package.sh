#!/usr/bin/env bash
# Builds the Debian and RPM packages for linux/amd64 and linux/arm64 into OUTDIR. The same
# commit gives the same bytes: dates are $SOURCE_DATE_EPOCH, by default the
# commit's. The programs are built in $BUILD_DIR, by default OUTDIR too.
# usage: cross/package.sh OUTDIR VERSION [ARCH...]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: cross/package.sh OUTDIR VERSION [ARCH...]}
version=${2:?usage: cross/package.sh OUTDIR VERSION [ARCH...]}
shift 2
arches=${*:-amd64 arm64}
build=${BUILD_DIR:-$out}

# nfpm is pinned so that a new release cannot change the packages of an old commit.
nfpm_version=v2.43.1

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# Package versions sort as follows: any text that is no version, v1.2.3-dev in the order of
# its commits, v1.2.3, and commits after v1.2.3.
PACKAGE_VERSION=${version#v}
case $PACKAGE_VERSION in
  [0-9]*.*-dev*) PACKAGE_VERSION=${PACKAGE_VERSION%%-*}~dev.$SOURCE_DATE_EPOCH ;;
  [0-9]*.*) PACKAGE_VERSION=${PACKAGE_VERSION//-/+} ;;
  *) PACKAGE_VERSION=0~$SOURCE_DATE_EPOCH.${PACKAGE_VERSION//-/.} ;;
esac

STAGE=$(mktemp -d)
DIST=$build
trap 'rm -rf "$STAGE"' EXIT
mkdir -p "$out" "$build" "$STAGE/doc/docs/lab"
export SOURCE_DATE_EPOCH TZ=UTC
umask 022

ldflags="-s -w -X main.version=$version"
GOBIN=$STAGE GOOS="" GOARCH="" go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version"
cp README.md "$STAGE/doc/"
cp docs/*.md "$STAGE/doc/docs/" # so that the links between the pages work
cp docs/lab/*.md "$STAGE/doc/docs/lab/"
gzip -9 -n -c CHANGELOG.md >"$STAGE/doc/CHANGELOG.md.gz"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: hencedge\nSource: https://github.com/hencedge/hencedge\n\n'
  printf 'Files: *\nCopyright: %s the hencedge authors\nLicense: Apache-2.0\n On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\nComment: The program links the modules below. The texts of their licences are in\n third-party-licenses.gz beside this file.\n' "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)"
  sed -n '/^Go standard library/,/^$/p' cmd/hencedge/internal/licenses/zlicenses.txt | sed '/^$/d; s/^/ /'
} >"$STAGE/doc/copyright"

# fill prints a template with its variables replaced by their values.
fill() {
  local text
  text=$(cat "$1")
  for name in PACKAGE OTHER HOLDS ROLE_FILES ARCH PACKAGER PACKAGE_VERSION MTIME STAGE DIST; do
    text=${text//"\${$name}"/"${!name}"}
  done
  printf '%s\n' "$text"
}

# machine names an architecture as RPM does.
machine() { case $1 in amd64) echo x86_64 ;; arm64) echo aarch64 ;; *) echo "$1" ;; esac; }

# package makes the packages $PACKAGE of a build with tags for each architecture. It holds
# the program and files that the program itself writes.
package() {
  local tags=$1 roles=$2 role
  rm -rf "$STAGE"/{units,drop-ins,default,examples,sysusers,schema,man,completions}
  CGO_ENABLED=0 go build -tags "${tags:+$tags,}nogpu" -trimpath -ldflags "$ldflags" -o "$STAGE/program" ./cmd/hencedge
  "$STAGE/program" package-files "$STAGE"
  gzip -9 -n -c "$STAGE/licenses" >"$STAGE/doc/third-party-licenses.gz"
  mkdir -p "$STAGE/examples"
  ROLE_FILES=
  cp -r config/examples/. "$STAGE/examples/"
  for role in agent evaluator keyholder; do
    case " $roles " in *" $role "*) ;; *) rm "$STAGE"/examples/"$role"*.yaml ;; esac
  done
  [ -e "$STAGE/examples/agent.yaml" ] || rm "$STAGE"/examples/*.{csv,ndjson} # the files that its examples replay
  for role in $roles; do
    ROLE_FILES+="  - {src: \"$STAGE/default/hencedge-$role\", dst: /etc/default/hencedge-$role, type: config|noreplace, file_info: {mode: 0644}}"$'\n'
    ROLE_FILES+="  - {dst: /etc/hencedge/credentials/hencedge-$role, type: dir, file_info: {mode: 0700}}"$'\n'
  done
  ROLE_FILES=${ROLE_FILES%$'\n'}
  for script in {deb,rpm}-{post,preun,postun}; do
    sed -e '/^@SETUP@$/{' -e 'r cross/package/setup' -e 'd' -e '}' "cross/package/$script" | sed "s/@ROLES@/$roles/" >"$STAGE/$script"
  done
  sed "s/@PACKAGE@/$PACKAGE/" cross/package/lintian-overrides >"$STAGE/lintian-overrides"
  printf '%s (%s) unstable; urgency=medium\n\n  * What has changed is in CHANGELOG.md.gz.\n\n -- %s  %s\n' \
    "$PACKAGE" "$PACKAGE_VERSION" "$(sed -n 's/^maintainer: //p' cross/package/nfpm.yaml)" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9 -n -c >"$STAGE/doc/changelog.gz"
  for ARCH in $arches; do
    local board= # the same tags as in cross/build.sh
    if [ -z "$tags" ] && [ "$ARCH" = arm64 ]; then board=nobroker,nostore; fi
    CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH go build -tags "$tags$board" -trimpath -ldflags "$ldflags" -o "$build/$PACKAGE-linux-$ARCH" ./cmd/hencedge
    if [ -n "$tags" ]; then cross/no-secrets.sh "$build/$PACKAGE-linux-$ARCH"; fi
    for PACKAGER in deb rpm; do
      fill cross/package/nfpm.yaml >"$STAGE/nfpm.yaml"
      local file=$out/${PACKAGE}_${PACKAGE_VERSION}_$ARCH.deb
      if [ $PACKAGER = rpm ]; then file=$out/$PACKAGE-$PACKAGE_VERSION-1.$(machine "$ARCH").rpm; fi
      "$STAGE/nfpm" package --config "$STAGE/nfpm.yaml" --packager $PACKAGER --target "$file" >"$STAGE/log" || { cat "$STAGE/log" >&2; exit 1; }
      printf '%s\t%s bytes\n' "$file" "$(stat -c %s "$file")"
    done
  done
}

PACKAGE=hencedge OTHER=hencedge-evaluator
HOLDS='  This package holds all three, each with a service.'
package '' 'agent evaluator keyholder'
PACKAGE=hencedge-evaluator OTHER=hencedge
HOLDS='  This package is for machines of the cloud: it holds the evaluator alone and no
  code for secret keys.'
package evaluatoronly evaluator

# Each package must hold the program of its own architecture. Packages of one name must
# hold the same files, and those of both kinds where their systems agree.
command -v dpkg-deb >/dev/null || exit 0
# common leaves out of a list of files what only one kind of system has.
common() { grep -Ev '^/usr/share/(lintian|licenses|zsh)|/changelog\.gz$|^/etc/hencedge(/credentials(/[a-z-]+)?)?$' | sort; }
for PACKAGE in hencedge hencedge-evaluator; do
  for ARCH in $arches; do
    deb=$out/${PACKAGE}_${PACKAGE_VERSION}_$ARCH.deb
    case $ARCH in amd64) machine='3e 00' ;; arm64) machine='b7 00' ;; *) machine= ;; esac
    dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/bin/hencedge >"$STAGE/program"
    found=$(od -An -tx1 -j18 -N2 "$STAGE/program")
    [ -z "$machine" ] || [ "${found# }" = "$machine" ] || { echo "package: the program in $deb is for ELF machine$found" >&2; exit 1; }
    dpkg-deb -c "$deb" | awk '{print $1, $2, $6}' >"$STAGE/list.$ARCH"
    cmp "$STAGE/list.$ARCH" "$STAGE/list.${arches%% *}"
    command -v rpm >/dev/null || continue
    rpm=$out/$PACKAGE-$PACKAGE_VERSION-1.$(machine "$ARCH").rpm
    [ "$(rpm -qp --qf '%{ARCH} %{BUILDHOST}' "$rpm")" = "$(machine "$ARCH") hencedge.invalid" ]
    diff <(rpm -qpl "$rpm" | common) <(dpkg-deb -c "$deb" | awk '{sub(/^\./, "", $6); print $6}' | grep -v '/$' | common) >&2
  done
done
