#!/usr/bin/env bash
# Measures what a running agent costs: a real process, a real mosquitto, 32
# channels at 1 Hz from /proc. Prints one JSON object for each parameter set.
#
#   cross/measure-agent.sh [binary [seconds [params...]]]
#
# Each object has
#   - memory: resident, steady and peak, and the part that is mapped from the binary;
#   - the share of one processor, between windows ("idle") and over all;
#   - the time from the start of the process to the first sample;
#   - bytes and time of a window;
#   - "plan": what `agent plan` predicted on this machine before;
#   - joules for each reading, if this user may read a power sensor of the machine. They are
#     for everything that the sensor covers.
#
# SAMPLES is the number of samples of a window (default 16; with 8 or fewer, "idle" would
# include windows), LEVEL the level (default the highest), MODE public or symmetric.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=${1:-bin/hencedge-static}
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
sets=("$@")
[ "${#sets[@]}" -gt 0 ] || sets=(edge12-d1 edge13-d3 edge13-d2p)
samples=${SAMPLES:-16}
bin=$(realpath "$bin")
broker=$(command -v mosquitto || echo /usr/sbin/mosquitto)
[ -x "$broker" ] || { echo "measure-agent: install mosquitto" >&2; exit 1; }

dir=$(mktemp -d)
pids=()
finish() {
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
  rm -rf "$dir"
}
trap finish EXIT

# port prints a free port.
port() {
  local p
  while :; do
    p=$((20000 + RANDOM % 20000))
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
  done
}

mqtt=$(port)
printf 'listener %s 127.0.0.1\nallow_anonymous true\n' "$mqtt" >"$dir/mosquitto.conf"
[ "$(id -u)" != 0 ] || echo 'user root' >>"$dir/mosquitto.conf"
"$broker" -c "$dir/mosquitto.conf" >/dev/null 2>&1 &
pids+=($!)

# channels prints 32 channels, all from files that every Linux has.
channels() {
  local f
  for f in busy user nice system idle iowait irq softirq steal; do
    echo "      - {name: cpu_$f, unit: '%', range: [0, 100], source: {type: cpu, field: $f}}"
  done
  echo "      - {name: cpu0, unit: '%', range: [0, 100], source: {type: cpu, cpu: cpu0}}"
  for f in used_percent swap_used_percent; do
    echo "      - {name: memory_$f, unit: '%', range: [0, 100], source: {type: memory, field: $f}}"
  done
  for f in total free available used buffers cached swap_total swap_free swap_used; do
    echo "      - {name: memory_$f, unit: B, range: [0, 1.0e+12], source: {type: memory, field: $f}}"
  done
  for f in 1m 5m 15m; do
    echo "      - {name: load_$f, unit: '1', range: [0, 1000], source: {type: load, field: $f}}"
  done
  for f in rx_bytes tx_bytes; do
    echo "      - {name: lo_$f, unit: B/s, range: [0, 1.0e+10], source: {type: net, interface: lo, field: $f}}"
  done
  for f in rx_packets tx_packets rx_errors tx_errors rx_dropped tx_dropped; do
    echo "      - {name: lo_$f, unit: 1/s, range: [0, 1.0e+7], source: {type: net, interface: lo, field: $f}}"
  done
}

# status prints a field of /proc/PID/status in KiB.
status() { awk -v f="$2:" '$1 == f {print $2}' "/proc/$1/status"; }
# cpu prints the processor time of a process, over all its threads, in nanoseconds. It is
# exact where the kernel keeps it for the scheduler, else in clock ticks.
cpu() {
  if [ -r "/proc/$1/schedstat" ]; then
    cat "/proc/$1/task/"*/schedstat | awk '{s += $1} END {printf "%.0f\n", s}'
  else
    sed 's/.*) //' "/proc/$1/stat" | awk -v hz="$(getconf CLK_TCK)" '{printf "%.0f\n", ($12 + $13) * 1e9 / hz}'
  fi
}
# metric prints the value of an exported metric, 0 if there is none.
metric() { curl -s --max-time 2 "http://127.0.0.1:$http/metrics" | awk -v m="$1" 'index($1, m) == 1 {v = $2} END {printf "%.0f\n", v + 0}'; }
# encrypted prints the seconds that encryption took so far.
encrypted() { curl -s --max-time 2 "http://127.0.0.1:$http/metrics" | awk '/^hencedge_agent_encrypt_seconds_total/ {v = $2} END {print v + 0}'; }
now() { date +%s%N; }
# planned prints the first field of the plan with that name, 0 if there is none.
planned() { grep -o "\"$1\":[0-9.e+-]*" <<<"$plan" | head -n 1 | cut -d: -f2 || echo 0; }

measure() {
  local params=$1 work="$dir/$1" level='' keys
  mkdir "$work"
  # No evaluation keys: agents do not need them, and they take long to make.
  "$bin" keys new --params "$params" --dir "$work/keys" --rotations 1 >/dev/null 2>&1
  if [ "${MODE:-public}" = symmetric ]; then
    "$bin" keys export --dir "$work/keys" --role agent --symmetric --out "$work/agent" >/dev/null 2>&1
    keys="{mode: symmetric, secret_key: $(ls "$work"/agent/*secret*), holder: none}"
  else
    "$bin" keys export --dir "$work/keys" --role agent --out "$work/agent" >/dev/null 2>&1
    keys="{public_key: $work/agent/public.key, holder: none}"
  fi
  rm -rf "$work/keys"
  "$bin" keys identity "$work/signing.key" >/dev/null
  http=$(port)
  [ -z "${LEVEL:-}" ] || level="    level: $LEVEL"
  cat >"$work/agent.yaml" <<YAML
device: board1
broker: {url: "tcp://127.0.0.1:$mqtt"}
keys: $keys
signing_key: $work/signing.key
state: $work/state
spool: {dir: $work/spool}
metrics: {listen: "127.0.0.1:$http"}
log: {level: warn}
streams:
  - name: system
    interval: 1s
    window: {samples: $samples}
    params: $params
$level
    channels:
$(channels)
YAML
  local plan
  plan=$("$bin" agent plan -c "$work/agent.yaml" --json 2>/dev/null) || true
  local began first='' pid
  began=$(now)
  "$bin" agent run -c "$work/agent.yaml" 2>"$work/log" &
  pid=$!
  pids+=("$pid")
  for _ in $(seq 1000); do
    if [ "$(metric hencedge_agent_samples_total)" -gt 0 ]; then
      first=$((($(now) - began) / 1000000))
      break
    fi
    kill -0 "$pid" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  done
  sleep 3 # past the start: "idle" is measured from here to the first window
  local idle0 idle1 all0 all1 t0 t1 t2
  t0=$(now) idle0=$(cpu "$pid")
  sleep $((samples > 8 ? samples - 6 : 1))
  t1=$(now) idle1=$(cpu "$pid")
  all0=$idle0
  # The first window is not measured with the others, because pages and caches are cold.
  local w1=0 e1
  for _ in $(seq $((2 * samples + 60))); do
    w1=$(metric hencedge_agent_windows_total)
    [ "$w1" = 0 ] || break
    sleep 0.5
  done
  e1=$(encrypted)
  sleep $((seconds > samples ? seconds - samples : 1))
  t2=$(now) all1=$(cpu "$pid")
  local windows body written syncs encrypt
  windows=$(metric hencedge_agent_windows_total)
  body=$(metric hencedge_agent_object_bytes_total)
  written=$(metric hencedge_agent_spool_written_bytes_total) syncs=$(metric hencedge_agent_spool_syncs_total)
  encrypt=$(encrypted)
  local joules
  joules=$(curl -s "http://127.0.0.1:$http/metrics" | awk '/^hencedge_agent_energy_joules_per_reading/ {v = $NF} END {if (v != "") printf ",\"joules_per_reading\":%.4g", v}')
  local predicted
  predicted=$(awk -v memory="$(planned memory_bytes)" -v cpu="$(planned cpu)" -v encrypt="$(planned encrypt_ms)" -v object="$(planned object_bytes)" \
    -v spool="$(planned spool_bytes_per_day)" -v syncs="$(planned spool_syncs_per_day)" -v windows="$(planned windows_per_day)" 'BEGIN {
    printf ",\"plan\":{\"peak_rss_mib\":%.1f,\"cpu_percent\":%.2f,\"bytes_per_window\":%d,\"spool_bytes_per_window\":%.0f,\"flushes_per_window\":%.0f,\"encrypt_ms\":%.2f}", memory/1048576, 100*cpu, object, spool/windows, syncs/windows, encrypt}')
  awk -v joules="$joules$predicted" -v written="$written" -v syncs="$syncs" -v params="$params" -v mode="${MODE:-public}" -v rss="$(status "$pid" VmRSS)" -v peak="$(status "$pid" VmHWM)" -v file="$(status "$pid" RssFile)" -v anon="$(status "$pid" RssAnon)" \
    -v idle=$((idle1 - idle0)) -v all=$((all1 - all0)) -v dt=$((t1 - t0)) -v dtall=$((t2 - t0)) \
    -v first="${first:-0}" -v windows="$windows" -v body="$body" -v encrypt="$encrypt" -v e1="$e1" -v w1="$w1" -v samples="$samples" 'BEGIN {
    printf "{\"params\":\"%s\",\"mode\":\"%s\",\"channels\":32,\"interval_s\":1,\"samples\":%d,\"rss_mib\":%.1f,\"peak_rss_mib\":%.1f,\"binary_mib\":%.1f,\"heap_mib\":%.1f,", params, mode, samples, rss/1024, peak/1024, file/1024, anon/1024
    printf "\"idle_cpu_percent\":%.2f,\"cpu_percent\":%.2f,\"first_sample_ms\":%d,\"windows\":%d,\"bytes_per_window\":%.0f,\"spool_bytes_per_window\":%.0f,\"flushes_per_window\":%.1f,\"first_encrypt_ms\":%.2f,\"encrypt_ms\":%.2f%s}\n", 100*idle/dt, 100*all/dtall, first, windows, windows ? body/windows : 0, windows ? written/windows : 0, windows ? syncs/windows : 0, w1 ? 1000*e1/w1 : 0, (windows > w1) ? 1000*(encrypt-e1)/(windows-w1) : 0, joules
  }'
  # The bounds of a small agent. With CHECK=1 exceeding one is an error.
  awk -v params="$params" -v peak="$(status "$pid" VmHWM)" -v idle=$((idle1 - idle0)) -v dt=$((t1 - t0)) -v first="${first:-999999}" 'BEGIN {
    if (params !~ /^edge1[23]-/) exit 0
    if (peak > 32*1024) { printf "measure-agent: %s: %.1f MiB at the peak, more than 32\n", params, peak/1024; bad = 1 }
    if (idle > dt/100) { printf "measure-agent: %s: %.2f %% of a processor when idle, more than 1\n", params, 100*idle/dt; bad = 1 }
    if (first > 1000) { printf "measure-agent: %s: %d ms to the first sample, more than 1000\n", params, first; bad = 1 }
    exit bad }' >&2 || exceeded=1
  kill -TERM "$pid" && wait "$pid" || true
}

exceeded=0
for s in "${sets[@]}"; do measure "$s"; done
[ "${CHECK:-0}" != 1 ] || [ "$exceeded" = 0 ]
