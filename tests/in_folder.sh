#!/usr/bin/env bash
# Runs a command with a temporary folder of its own, removed afterwards: in memory where there is room. Tests start
# hundreds of databases, and a disk takes longer to make and remove their files than to do all that is asked of them.
set -euo pipefail
needed_kb=$((4 * 1024 * 1024))

has_room() {
  local free_kb
  free_kb=$(df --output=avail /dev/shm 2>/dev/null | tail -1) || return 1
  [ "$free_kb" -ge $needed_kb ] && [ "$(awk '/MemAvailable/ {print $2}' /proc/meminfo)" -ge $((2 * needed_kb)) ]
}

may_run_programs() { printf '#!/bin/sh\n' >"$1/try" && chmod +x "$1/try" && "$1/try" && rm "$1/try"; }

in_memory() {
  has_room || return 1
  folder=$(mktemp -d /dev/shm/sl-XXXXXX) || return 1
  may_run_programs "$folder" 2>/dev/null || { rm -rf "$folder"; return 1; }
}

in_memory || folder=$(mktemp -d "${TMPDIR:-/tmp}/sl-XXXXXX")
trap 'rm -rf "$folder"' EXIT
unset PYTHONDONTWRITEBYTECODE # tests start hundreds of Pythons, and each would compile all of Sluice again
TMPDIR=$folder "$@"
