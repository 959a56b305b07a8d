#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another.
# usage: cross/fuzz.sh DURATION [NAME-REGEXP]     for example: cross/fuzz.sh 10m
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: cross/fuzz.sh DURATION [NAME-REGEXP]}
want=${2:-.}
ran=0
while IFS=: read -r file name; do
  grep -Eq "$want" <<<"$name" || continue
  pkg=./$(dirname "$file")
  echo "== $pkg $name $duration"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$duration" -fuzzminimizetime 10x "$pkg"
  ran=$((ran + 1))
done < <(git ls-files '*_test.go' | xargs grep -oHE '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //')
[ "$ran" -gt 0 ] || { echo "fuzz: no target matches $want" >&2; exit 1; }
echo "fuzz: $ran targets ran for $duration each"
