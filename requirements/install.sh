#!/usr/bin/env bash
# Makes $VENV and installs one of the lock files into it, as the Makefile asks: install.sh runtime | test | vllm |
# vllm-test | providers | focus | docs | client NAME | agents.
# It needs a Python with venv and a package index, no compiler; says what it does, and fails with one clear line.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv}
pip_log=$VENV/install.log

fail() { printf 'sluice: %s\n' "$*" >&2; exit 1; }

supported='import sys, platform; ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
sys.exit(not (ok and sys.platform == "linux" and platform.machine() == "x86_64"))'

# The best of five runs of a loop, in microseconds of CPU.
pace='import time
def once():
    began_ns = time.process_time_ns()
    for number in range(100_000): number % 7
    return time.process_time_ns() - began_ns
print(min(once() for _ in range(5)) // 1_000)'

# The first of this name in the path, unless another one is faster by a tenth: an interpreter that was built without
# profile-guided optimisation takes a seventh more CPU for every call. One that cannot make environments comes last.
choose_fastest() {
  local candidate took_us found='' best_us=0
  while read -r candidate; do
    "$candidate" -c "$supported" 2>/dev/null || continue
    took_us=$("$candidate" -c "$pace") || continue
    "$candidate" -c 'import ensurepip, venv' 2>/dev/null || took_us=$((took_us + 60000000))
    if [ -z "$found" ] || ((took_us * 10 < best_us * 9)); then found=$candidate best_us=$took_us; fi
  done < <(type -ap "$1")
  [ -n "$found" ] && PYTHON=$found
}

choose_python() {
  if [ -n "${PYTHON:-}" ]; then
    "$PYTHON" -c "$supported" 2>/dev/null || fail "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13 for Linux on x86-64"
    return
  fi
  local name
  for name in python3.11 python3.12 python3.13 python3; do
    if choose_fastest "$name"; then return; fi
  done
  fail "needs Python 3.11, 3.12 or 3.13 for Linux on x86-64 (python3 here: $(python3 --version 2>&1 || echo none));" \
    "on Debian: apt-get install python3 python3-venv; or name one: make up PYTHON=/path/to/python"
}

make_venv() {
  if "$VENV/bin/python" -c "$supported" 2>/dev/null && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
  choose_python
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$PYTHON cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv"
  echo "== making $VENV with $("$PYTHON" --version), $PYTHON"
  "$PYTHON" -m venv --clear "$VENV" || fail "could not make $VENV"
}

# Runs a command quietly with a line of progress every ten seconds; its whole output stays in install.log.
patiently() {
  local started=$SECONDS told=$SECONDS
  "$@" >>"$pip_log" 2>&1 &
  local job=$!
  trap 'kill $job 2>/dev/null; exit 130' INT TERM
  while kill -0 $job 2>/dev/null; do
    if ((SECONDS - told >= 10)); then
      told=$SECONDS
      echo "   ... $((SECONDS - started)) s, $(grep -cE '^ *(Downloading|Using cached|Processing|Get:[0-9]+) ' "$pip_log") packages fetched"
    fi
    sleep 0.2
  done
  trap - INT TERM
  wait $job
}

pip() {
  patiently "$VENV/bin/python" -m pip --disable-pip-version-check --no-input install --progress-bar off --only-binary :all: \
    --no-deps "$@"
}

give_up() {
  grep -E '^ *ERROR' "$pip_log" | tail -1 | cut -c1-200 >&2 || true
  fail "$1 (the whole story: $pip_log)"
}

choose_torch() {
  [ -z "${TORCH:-}" ] || return 0
  if nvidia-smi -L >/dev/null 2>&1; then TORCH=cuda; else TORCH=cpu; fi
}

# The CPU build is not on the general package index. Where pip's own configuration knows a place that has it, that one is
# taken; otherwise PyTorch's index is asked. CUDA packages are never fetched for a machine without a GPU.
install_torch() {
  choose_torch
  case $TORCH in
  cuda)
    echo '== installing PyTorch with CUDA, for the GPU found here (some 2.5 GB)'
    pip --require-hashes -r requirements/torch-cuda.lock || give_up 'could not install PyTorch'
    ;;
  cpu)
    echo '== installing PyTorch without CUDA (192 MB)'
    pip --require-hashes -r requirements/torch-cpu.lock && return
    echo "   not found where pip looks; asking PyTorch's own index"
    pip --require-hashes -r requirements/torch-cpu.lock --retries 1 --timeout 10 \
      --extra-index-url https://download.pytorch.org/whl/cpu ||
      give_up 'could not install the CPU build of PyTorch; give pip a place that has it (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL)'
    ;;
  *) fail "TORCH=$TORCH: say cpu or cuda" ;;
  esac
}

install_runtime() {
  make_venv
  : >"$pip_log"
  install_torch
  echo "== installing $(grep -c '==' requirements/runtime.lock) pinned packages (about 430 MB)"
  pip --require-hashes -r requirements/runtime.lock || give_up 'could not install the packages of requirements/runtime.lock'
  # compat: the project folder itself is on the path, so a package added later needs no new install
  pip --no-build-isolation --config-settings editable_mode=compat --editable . || give_up 'could not install Sluice itself'
  touch "$VENV/.runtime"
  echo "== installed in $SECONDS s"
}

install_test() {
  echo "== installing what the tests need in $VENV"
  pip --require-hashes -r "requirements/$1" || give_up "could not install the packages of requirements/$1"
  touch "$VENV/.test"
}

# The plain package brings its own torch; the CPU build takes the one that everything else here takes.
install_vllm() {
  make_venv
  : >"$pip_log"
  choose_torch
  [ "$TORCH" = cuda ] || install_torch
  echo "== installing vLLM: $(grep -c '==' "requirements/vllm-$TORCH.lock") pinned packages ($(vllm_size) on disk)"
  pip --require-hashes -r "requirements/vllm-$TORCH.lock" ||
    give_up "could not install the packages of requirements/vllm-$TORCH.lock"
  touch "$VENV/.runtime"
  echo "== installed in $SECONDS s"
}

install_providers() {
  make_venv
  : >"$pip_log"
  echo "== installing the adapters of providers: $(grep -c '==' requirements/providers.lock) pinned packages (about 300 MB on disk)"
  pip --require-hashes -r requirements/providers.lock || give_up 'could not install the packages of requirements/providers.lock'
  touch "$VENV/.runtime"
  echo "== installed in $SECONDS s"
}

install_triton() {
  make_venv
  : >"$pip_log"
  echo "== installing the tests' Triton server: $(grep -c '==' requirements/triton.lock) pinned packages (370 MB on disk)"
  pip --require-hashes -r requirements/triton.lock || give_up 'could not install the packages of requirements/triton.lock'
  touch "$VENV/.runtime"
  echo "== installed in $SECONDS s"
}

# Sluice itself runs on other versions too, so there may be none: then one line says so, and nothing fails.
find_python_3_12() {
  local candidate is_3_12='import sys, ensurepip, venv; sys.exit(sys.version_info[:2] != (3, 12))'
  for candidate in ${FOCUS_PYTHON:-$(type -ap python3.12) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python3.12}; do
    if "$candidate" -c "$is_3_12" 2>/dev/null; then PYTHON=$candidate; return; fi
  done
  return 1
}

# The validator is published as sources alone: what builds it is pinned as well, and installed before it.
install_focus() {
  if ! find_python_3_12; then
    echo '== no validator of FOCUS: it wants a Python 3.12, and none is here (FOCUS_PYTHON=/path/to/python names one)'
    return
  fi
  make_venv
  : >"$pip_log"
  echo "== installing the validator of FOCUS: $(grep -c '==' requirements/focus.lock) pinned packages (about 670 MB on disk)"
  awk '/^[a-z]/ {builds = /^(poetry-core|pyyaml)==/} builds' requirements/focus.lock >"$VENV/build.lock"
  pip --require-hashes -r "$VENV/build.lock" || give_up 'could not install what builds the validator of FOCUS'
  pip --require-hashes -r requirements/focus.lock --no-binary focus-validator --no-build-isolation ||
    give_up 'could not install the packages of requirements/focus.lock'
  touch "$VENV/.runtime"
  echo "== installed in $SECONDS s"
}

install_docs() {
  make_venv
  : >"$pip_log"
  echo "== installing what builds the site: $(grep -c '==' requirements/docs.lock) pinned packages (about 100 MB on disk)"
  pip --require-hashes -r requirements/docs.lock || give_up 'could not install the packages of requirements/docs.lock'
  touch "$VENV/.docs"
}

# The tests drive a real browser over the console. One that is there is taken; else Debian's is installed, where we may.
find_chromium() {
  local name
  if [ -n "${CHROMIUM:-}" ]; then
    command -v "$CHROMIUM" >/dev/null || fail "CHROMIUM=$CHROMIUM is no program"
    return
  fi
  for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then return; fi
  done
  return 1
}

install_chromium() {
  find_chromium && return
  local wanted='the tests need Chromium: as root, apt-get install chromium; or name a Chromium or Chrome: CHROMIUM=/path/to/it'
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "$wanted"; fi
  echo '== installing Chromium, which the tests drive over the console (about 100 MB)'
  patiently apt-get update || echo '   the list of packages could not be brought up to date'
  DEBIAN_FRONTEND=noninteractive patiently apt-get install -y --no-install-recommends chromium || fail "$wanted (tried: $pip_log)"
  find_chromium || fail "$wanted"
}

# A client that is heavy, or disagrees with our own packages, has an environment of its own: .venv-clients/NAME.
install_client() {
  local lock=requirements/clients/$1.lock
  [ -f "$lock" ] || fail "no such client: $lock is not there"
  make_venv
  : >"$pip_log"
  if grep -qE '^torch\b' "${lock%.lock}.in"; then install_torch; fi
  echo "== installing the client $1: $(grep -c '==' "$lock") pinned packages"
  pip --require-hashes -r "$lock" || give_up "could not install the packages of $lock"
  touch "$VENV/.client"
}

# The tests run clients and agents for Node; package-lock.json pins them by hash. No script of theirs is run: what agents
# would fetch by one is in packages as well.
install_node() {
  local folder=tests/clients/$1 version
  version=$(node --version 2>/dev/null || true)
  version=${version#v}
  version=${version%%.*}
  if [ "${version:-0}" -lt 20 ] || ! command -v npm >/dev/null; then
    fail "the tests need Node 20 or later with npm, in the path (node here: $(node --version 2>/dev/null || echo none))"
  fi
  if [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then return; fi
  echo "== installing what the tests run on Node, in $folder ($2)"
  patiently npm ci --ignore-scripts --prefix "$folder" || fail "npm could not install $folder/package-lock.json (the whole story: $pip_log)"
}

vllm_size() { case $TORCH in cuda) echo 'many GB' ;; *) echo '2.4 GB' ;; esac; }

case ${1:-} in
runtime) install_runtime ;;
test)
  install_chromium
  install_node node '66 MB'
  install_test test.lock
  ;;
vllm) install_vllm ;;
vllm-test) install_test vllm-test.lock ;;
providers) install_providers ;;
triton) install_triton ;;
focus) install_focus ;;
docs) install_docs ;;
client) VENV=.venv-clients/${2:?which} pip_log=.venv-clients/$2/install.log install_client "$2" ;;
agents) install_node agents '800 MB' ;;
*) fail "usage: $0 runtime|test|vllm|vllm-test|providers|triton|focus|docs|client NAME|agents" ;;
esac
