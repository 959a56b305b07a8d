#!/usr/bin/env bash
# Runs every fuzz target of the module, $JOBS at a time with one worker each. The targets of
# a package share one test binary.
# usage: cross/fuzz.sh DURATION [NAME-REGEXP]     for example: cross/fuzz.sh 10m
#
# Before Go 1.27 a target can fail for no reason when its time ends just as its context is
# cancelled (go.dev/issue/75804). It then prints only "context deadline exceeded" and names
# no input. Such a target runs again, at most three times. Any other failure counts at once.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: cross/fuzz.sh DURATION [NAME-REGEXP]}
want=${2:-.}
work=$(mktemp -d)
# shellcheck source=cross/pool.sh
. cross/pool.sh
trap 'rm -rf "$work" "$pool_dir"' EXIT
# As `go test -fuzz` keeps what it finds to be interesting.
cache=$(go env GOCACHE)/fuzz
module=$(go list -m)

# unfounded reports whether a log shows that race and nothing else.
unfounded() { # NAME LOG
  local rest
  rest=$(sed -E -e '/^fuzz: elapsed: /d' -e '/^exit status 1$/d' -e '/^FAIL($|\t)/d' "$2")
  [[ $rest =~ ^---\ FAIL:\ $1\ \([0-9.]+s\)[[:space:]]+context\ deadline\ exceeded$ ]]
}

fuzz() { # PACKAGE BINARY NAME
  local try log=$2.$3.log
  mkdir -p "$cache/$module/$1"
  cd "$1"
  for try in 1 2 3; do
    if "$2" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "$duration" -test.fuzzminimizetime 10x \
      -test.fuzzcachedir "$cache/$module/$1" -test.parallel 1 >"$log" 2>&1; then
      cat "$log"
      return
    fi
    if [ "$try" = 3 ] || ! unfounded "$3" "$log"; then
      cat "$log"
      echo "fuzz: $3 failed"
      return 1
    fi
    echo "fuzz: $3 ended in the race of go.dev/issue/75804: running it again"
  done
}

ran=0 built=
while IFS=: read -r file name; do
  grep -Eq "$want" <<<"$name" || continue
  pkg=$(dirname "$file")
  binary=$work/${pkg//\//_}.test
  if [ "$built" != "$pkg" ]; then # the targets of a package stand together in the list
    go test -c -fuzz . -o "$binary" "./$pkg"
    built=$pkg
  fi
  pool "$pkg $name $duration" fuzz "$pkg" "$binary" "$name"
  ran=$((ran + 1))
done < <(git ls-files '*_test.go' | xargs grep -oHE '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //' |
  awk -F: '{dir = $1; sub("/[^/]*$", "", dir); print dir "\t" $0}' | sort -s -k1,1 | cut -f2)
[ "$ran" -gt 0 ] || { echo "fuzz: no target matches $want" >&2; exit 1; }
pool_wait
echo "fuzz: $ran targets ran for $duration each"
