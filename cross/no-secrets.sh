#!/usr/bin/env bash
# Fails if a program for evaluators contains code for secret keys: the table of functions,
# which even a stripped program has, must name no function of these packages. It also fails
# if it does not find the evaluator's own functions, since it then cannot read the table.
# usage: cross/no-secrets.sh PROGRAM...
set -euo pipefail
module=github.com/hencedge/hencedge
for program in "$@"; do
  for package in henc/secret keyholder agent; do
    if LC_ALL=C grep -qaF "$module/$package." "$program"; then
      echo "no-secrets: $program contains functions of $package" >&2
      exit 1
    fi
  done
  LC_ALL=C grep -qaF "$module/evaluator." "$program" || { echo "no-secrets: no functions found in $program" >&2; exit 1; }
done
