#!/usr/bin/env bash
# gofmt, go vet (the product for each platform), duplicates between the roles, staticcheck, revive
# and govulncheck.
# usage: cross/lint.sh MODULE-DIR...
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'lint: run gofmt -w on:\n%s\n' "$unformatted" >&2
  exit 1
fi

# The product is compiled as cross/build.sh does it, so that the two share the build cache. Each
# tag is checked on one platform, in the packages that know it: cross/release.sh compiles the rest.
# The code of the other modules is the same on all platforms, so they are checked once.
vet() { # ARCH TAGS PACKAGE...
  echo "== go vet linux/$1${2:+ -tags $2}"
  CGO_ENABLED=0 GOOS=linux GOARCH=$1 go vet -trimpath -tags "$2" "${@:3}"
}
vet amd64 "" ./...
vet arm64 "" ./...
for tag in nogpu evaluatoronly nobroker nostore taint chaos; do
  vet amd64 "$tag" $(git grep -lE "^//go:build.*\b$tag\b" -- '*.go' | xargs dirname | sort -u | sed 's|^|./|')
done
for dir in "$@"; do
  if [ "$dir" != . ]; then
    echo "== go vet $dir"
    (cd "$dir" && go vet ./...)
  fi
done

# What follows is independent of each other and mostly uses one processor.
# shellcheck source=cross/pool.sh
. cross/pool.sh
trap 'rm -rf "$pool_dir"' EXIT

# staticcheck is pinned so that a new release cannot break an old commit.
staticcheck_version=v0.8.2
static() { # MODULE-DIR ARGUMENTS...
  cd "$1"
  go run "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version" "${@:2}"
}
for dir in "$@"; do pool "staticcheck $dir" static "$dir" ./...; done
pool "staticcheck -tags evaluatoronly" static . -tags evaluatoronly ./cmd/hencedge

# revive refuses shadowed builtins, lines over 120 columns and functions over 80 lines
# (revive.toml) in the files of every module and platform. It is pinned like staticcheck.
revive_version=v1.15.0
revive() { git ls-files '*.go' | xargs go run "github.com/mgechev/revive@$revive_version" -config revive.toml; }
pool revive revive

# Code that two roles need stands in one place.
pool "duplicates between the roles" go run ./cross/duplicates agent evaluator keyholder

# govulncheck needs its module and the vulnerability database. If it cannot reach them, it
# neither passes nor fails, and says so.
vulnerabilities() {
  local out
  if out=$(go run golang.org/x/vuln/cmd/govulncheck@latest ./... 2>&1); then
    tail -n 1 <<<"$out"
  elif grep -q 'Vulnerability #' <<<"$out"; then
    printf '%s\n' "$out"
    return 1
  else
    echo "not run, it could not be reached: $(tail -n 1 <<<"$out")"
  fi
}
pool govulncheck vulnerabilities
pool_wait
