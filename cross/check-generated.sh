#!/usr/bin/env bash
# Runs every generator, `make charts` and `go mod tidy`, and fails if a tracked file changes.
# check-kernels.sh checks the CUDA kernels, whose generator needs a compiler.
# usage: cross/check-generated.sh MODULE-DIR...
set -euo pipefail
cd "$(dirname "$0")/.."
cross/check-kernels.sh
before=$(git status --porcelain)
for dir in "$@"; do
  (cd "$dir" && go list ./... | grep -v '/kernels$' | xargs go generate && go mod tidy)
done
make --silent charts
after=$(git status --porcelain)
if [ "$before" != "$after" ]; then
  echo "check-generated: these files differ from what their generators write:" >&2
  diff <(echo "$before") <(echo "$after") >&2 || true
  git --no-pager diff --stat >&2
  exit 1
fi
echo "check-generated: nothing changed"
