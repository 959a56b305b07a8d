# Runs commands side by side, for scripts that source this file: at most $JOBS at a time
# (by default as many as there are processors). What a command prints appears whole when it
# ends, with the seconds it took. After a failure nothing more is started.
#   pool NAME COMMAND...   starts a command or function, in a shell of its own
#   pool_wait              waits for all of them and fails if one has failed
# shellcheck shell=bash
: "${JOBS:=$(nproc)}"
pool_dir=$(mktemp -d)

pool() {
  local name=$1
  shift
  while [ "$(jobs -pr | wc -l)" -ge "$JOBS" ]; do wait -n || true; done
  [ ! -e "$pool_dir/failed" ] || return 0
  pool_run "$name" "$@" &
}

pool_run() {
  local name=$1 status log begun=$SECONDS
  shift
  trap - INT # which background commands ignore otherwise
  log=$(mktemp "$pool_dir/XXXXXX")
  set +e # the command has a shell with -e of its own, which must not be part of a condition
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  [ "$status" = 0 ] || : >"$pool_dir/failed"
  {
    flock 9
    printf '== %s (%ss)\n' "$name" "$((SECONDS - begun))"
    cat "$log"
    [ "$status" = 0 ] || printf '== %s: failed with status %s\n' "$name" "$status"
  } 9>>"$pool_dir/lock"
  rm -f "$log"
}

pool_wait() {
  wait
  if [ -e "$pool_dir/failed" ]; then
    rm -rf "$pool_dir"
    return 1
  fi
  rm -rf "$pool_dir"
  pool_dir=$(mktemp -d)
}
