#!/usr/bin/env bash
# Prints what limits each kernel of the table in docs/benchmarks.md, measured by Nsight
# Compute at its 20th launch: one row of Markdown per kernel.
# usage: cross/profile-gpu.sh [HENCEDGE]
# HENCEDGE is the program (default: built here). Clocks are left as they are. The profiler
# runs each kernel several times with cold caches, so its times are longer than those of
# the table. Only the shares matter.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v ncu > /dev/null || { echo "profile-gpu: ncu not found: it comes with the CUDA toolkit" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=${1:-}
if [ -z "$program" ]; then
  program=$work/hencedge
  CGO_ENABLED=0 "${GO:-go}" build -trimpath -o "$program" ./cmd/hencedge
fi
program=$(realpath "$program")

stalls=(long_scoreboard short_scoreboard math_pipe_throttle barrier wait lg_throttle mio_throttle dispatch_stall not_selected no_instruction)
metrics=gpu__time_duration.sum,launch__registers_per_thread,sm__maximum_warps_per_active_cycle_pct,sm__warps_active.avg.pct_of_peak_sustained_active
metrics+=,smsp__issue_active.avg.pct_of_peak_sustained_active,sm__inst_executed_pipe_fmaheavy.avg.pct_of_peak_sustained_active,sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active
metrics+=,l1tex__throughput.avg.pct_of_peak_sustained_active,lts__throughput.avg.pct_of_peak_sustained_elapsed,dram__throughput.avg.pct_of_peak_sustained_elapsed
for s in "${stalls[@]}"; do metrics+=,smsp__average_warps_issue_stalled_${s}_per_issue_active.ratio; done

echo "| operation | kernel | us | registers | warps: possible, active | issue | multiplier | arithmetic | L1 | L2 | DRAM | waits for (warps per issue) |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
# profile NAME ARGUMENTS... prints the kernels of one run of bench.
profile() {
  local name=$1
  shift
  if ! ncu --clock-control none --metrics "$metrics" --kernel-id :::20 --csv --page raw --log-file "$work/log" \
    "$program" bench --backend cuda --insecure --min-time 1ms --json "$@" > "$work/out" 2>&1; then
    tail -n 5 "$work/out" "$work/log" >&2
    return 1
  fi
  awk -v name="$name" '
    function col(m) { return $(at[m]) }
    BEGIN { FS = "\",\"" }
    !/^"/ { next }
    { sub(/^"/, ""); sub(/"$/, "") }
    units { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9][0-9,]*(\.[0-9]+)?$/) gsub(/,/, "", $i) }
    !named { for (i = 1; i <= NF; i++) at[$i] = i; named = 1; next }
    !units { for (i = 1; i <= NF; i++) unit[i] = $i; units = 1; next }
    {
      t = col("gpu__time_duration.sum")
      u = unit[at["gpu__time_duration.sum"]]
      if (u == "ns" || u == "nsecond") t /= 1000
      if (u == "ms" || u == "msecond") t *= 1000
      most = second = 0; a = b = ""
      for (m in at) if (m ~ /^smsp__average_warps_issue_stalled_/) {
        v = $(at[m]) + 0; s = m
        sub(/^smsp__average_warps_issue_stalled_/, "", s); sub(/_per_issue_active.ratio$/, "", s)
        if (v > most) { second = most; b = a; most = v; a = s } else if (v > second) { second = v; b = s }
      }
      k = col("Kernel Name"); sub(/\(.*/, "", k)
      printf "| %s | %s | %.1f | %d | %.0f, %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %s %.1f, %s %.1f |\n", name, k, t,
        col("launch__registers_per_thread"), col("sm__maximum_warps_per_active_cycle_pct"), col("sm__warps_active.avg.pct_of_peak_sustained_active"),
        col("smsp__issue_active.avg.pct_of_peak_sustained_active"), col("sm__inst_executed_pipe_fmaheavy.avg.pct_of_peak_sustained_active"),
        col("sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"), col("l1tex__throughput.avg.pct_of_peak_sustained_active"),
        col("lts__throughput.avg.pct_of_peak_sustained_elapsed"), col("dram__throughput.avg.pct_of_peak_sustained_elapsed"), a, most, b, second
    }' "$work/log"
}
profile "transforms, 66 limbs of 2^16" --table --op ntt,intt
profile "HENC, 66 limbs of 2^16" --table --params bench-paper16-insecure --op henc_pk,henc_seeded
profile "HENC, edge13-d3" --table --params edge13-d3 --op henc_pk,henc_seeded
profile "HMULT, RESCALE, HROTATE, 66 + 22 limbs of 2^16" --table --params bench-paper16-insecure --op hmult,hmult_rescale,hrotate,rescale
profile "HMULT, std14-d5, 64 together" --params std14-d5 --op hmult --n2 4 --batch 64
