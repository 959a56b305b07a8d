#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another.
# usage: cross/fuzz.sh DURATION [NAME-REGEXP]     for example: cross/fuzz.sh 10m
#
# Before Go 1.27 a target can fail for no reason when its time ends just as its context is
# cancelled (go.dev/issue/75804). It then prints only "context deadline exceeded" and names
# no input. Such a target runs again, at most three times. Any other failure counts at once.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: cross/fuzz.sh DURATION [NAME-REGEXP]}
want=${2:-.}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() { # PACKAGE NAME
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$duration" -fuzzminimizetime 10x "$1" 2>&1 | tee "$log"
}

# unfounded reports whether the log shows that race and nothing else.
unfounded() { # NAME
  local rest
  rest=$(sed -E -e '/^fuzz: elapsed: /d' -e '/^exit status 1$/d' -e '/^FAIL($|\t)/d' "$log")
  [[ $rest =~ ^---\ FAIL:\ $1\ \([0-9.]+s\)[[:space:]]+context\ deadline\ exceeded$ ]]
}

ran=0
while IFS=: read -r file name; do
  grep -Eq "$want" <<<"$name" || continue
  pkg=./$(dirname "$file")
  echo "== $pkg $name $duration"
  for try in 1 2 3; do
    fuzz "$pkg" "$name" && break
    if [ "$try" = 3 ] || ! unfounded "$name"; then
      echo "fuzz: $name failed" >&2
      exit 1
    fi
    echo "fuzz: $name ended in the race of go.dev/issue/75804: running it again" >&2
  done
  ran=$((ran + 1))
done < <(git ls-files '*_test.go' | xargs grep -oHE '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //')
[ "$ran" -gt 0 ] || { echo "fuzz: no target matches $want" >&2; exit 1; }
echo "fuzz: $ran targets ran for $duration each"
