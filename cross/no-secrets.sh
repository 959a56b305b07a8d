#!/usr/bin/env bash
# Fails if a program for evaluators holds code for secret keys: the table of functions,
# which a stripped program has too, must name no function of these packages. A program in
# which the evaluator's functions are not found either was not looked at.
# usage: cross/no-secrets.sh PROGRAM...
set -euo pipefail
module=github.com/hencedge/hencedge
for program in "$@"; do
  for package in henc/secret keyholder agent; do
    if LC_ALL=C grep -qaF "$module/$package." "$program"; then
      echo "no-secrets: $program holds functions of $package" >&2
      exit 1
    fi
  done
  LC_ALL=C grep -qaF "$module/evaluator." "$program" || { echo "no-secrets: no functions are found in $program" >&2; exit 1; }
done
