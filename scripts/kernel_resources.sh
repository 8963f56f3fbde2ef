#!/usr/bin/env bash
# Registers, shared memory and spills of every CUDA kernel on every architecture, from what ptxas said
# while it was built. usage: scripts/kernel_resources.sh [BUILD] >tests/cuda/kernel_resources.txt
# `make lint` compares that table with the build; shared memory is what a kernel declares, without
# what its launch adds.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)

echo "# nvcc $("$nvcc" --version | sed -n 's/.*release [^,]*, V//p')"
echo "# kernel | architecture | registers | shared bytes | stack bytes | spilled bytes"
cat "$build"/cuda/*.ptxas | awk '
  /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2]; arch = quoted[4] }
  /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
  /Used [0-9]+ registers/ {
    shared = 0
    for (i = 2; i <= NF; i++) if ($i ~ /^smem/) shared = $(i - 2)
    match($0, /Used [0-9]+/)
    registers = substr($0, RSTART + 5, RLENGTH - 5)
    print kernel " | " arch " | " registers " | " shared " | " stack " | " spilled
  }' | c++filt | sed -E 's/\(anonymous namespace\):://g; s/llm:://g; s/void //; s/^([^|]*>)\(.*\) \|/\1 |/; s/^([a-z_0-9]+)\([^|]*\) \|/\1 |/' |
  LC_ALL=C sort
