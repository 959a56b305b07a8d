#!/usr/bin/env bash
# Counts the instructions that a benchmark executes on arm64 under qemu-user, by class, for
# NEON and for plain Go. Only code of the package and of each IMPORT-PATH counts. %v in the
# name of the benchmark stands for neon and generic.
# usage: cross/count-arm64.sh PACKAGE BENCHMARK VALUES [IMPORT-PATH...]
#   cross/count-arm64.sh ./cutrantt/cpu 'Transform/forward/N=2\^12/n2=1$' 4096
#   cross/count-arm64.sh ./cutrantt/prng 'Samplers/%v/cbd$' 8192 golang.org/x/crypto/chacha20
# One iteration makes VALUES values. For each value it prints the number of all
# instructions, then of vector products, other vector operations, vector loads and stores,
# scalar products, other loads and stores, and the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
pkg=$1 bench=$2 values=$3
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go test -c -tags nogpu -o "$work/test" "$pkg"
go tool nm -n "$work/test" >"$work/symbols"
# The functions of a package lie together, so the log covers from the first to the last.
range=
for path in $(go list "$pkg") "${@:4}"; do
  range+=${range:+,}$(awk -v p="$path." '
    index($3, p) == 1 && $2 ~ /[tT]/ {if (!first) first = $1; inside = 1; next}
    inside {inside = 0; last = $1}
    END {print "0x" first "..0x" last}' "$work/symbols")
  go tool objdump -s "^${path//./\\.}\\." "$work/test" >>"$work/code"
done
awk '
  $1 ~ /^[A-Za-z_<]/ && $2 ~ /^0x/ {
    op = $4; v = / [VF][0-9]+|[[(,][VF][0-9]+/; c = "rest"
    if (v && op ~ /^V?(MUL|ML[AS]|SQR?DMULH|UML[AS]L2?|UMULL2?)/) c = "vector product"
    else if (v && op ~ /^(FMOV[QDS]|FLDP|FSTP|VLD|VST|LD|ST)/ && /\(R/) c = "vector load or store"
    else if (v) c = "vector"
    else if (op ~ /^(MUL|UMULH|SMULH|MADD|MSUB|UMULL|UMADDL|UMSUBL|MNEG|SMULL|UDIV)/) c = "product"
    else if (op ~ /^(MOV|LD|ST)/ && /\(R/) c = "load or store"
    print $2, c
  }' "$work/code" >"$work/classes"
# executions of each address. The log has the instructions of each translated block, and
# one line each time that a block begins.
count() { # VARIANT ITERATIONS
  CUTRANTT_CPU=$1 "$qemu" -d nochain,exec,in_asm -dfilter "$range" -D "$work/log" "$work/test" \
    -test.run '^$' -test.bench "${bench//%v/$1}" -test.benchtime "${2}x" -test.cpu 1 >/dev/null
  awk '/^IN:/ {first = ""}
    /^0x/ {sub(/:$/, "", $1); pc = substr($1, length($1) - 7); if (first == "") {first = pc; block[first] = ""} block[first] = block[first] " " pc}
    /^Trace/ {split($0, part, "/"); n[substr(part[2], 9)]++}
    END {for (f in n) {k = split(block[f], all, " "); for (i = 1; i <= k; i++) by[all[i]] += n[f]} for (a in by) print a, by[a]}' "$work/log"
}
for variant in neon generic; do
  count "$variant" 1 >"$work/few"
  count "$variant" 3 >"$work/more"
  awk -v variant="$variant" -v values="$values" '
    {k = $1; sub(/^(0x)?0*/, "", k)}
    FILENAME ~ /classes$/ {sub(/^[^ ]* /, ""); class[k] = $0; next}
    {n = FILENAME ~ /few$/ ? -$2 : $2; all += n; by[k in class ? class[k] : "rest"] += n}
    END {
      printf "%-8s %8.2f", variant, all / 2 / values
      n = split("vector product,vector,vector load or store,product,load or store,rest", names, ",")
      for (i = 1; i <= n; i++) printf "  %s %.2f", names[i], by[names[i]] / 2 / values
      print ""
    }' "$work/classes" "$work/few" "$work/more"
done
