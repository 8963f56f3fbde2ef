#!/bin/sh
# Builds and runs the layout study; prints Markdown. Usage: scripts/layout_study/run.sh [REPS]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cxx=${CXX:-g++}
"$cxx" -std=c++20 -O3 -march=native -ffp-contract=off -w -pthread -o "$work/study" "$here/main.cpp"
echo "Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores." \
  "Compiler: $("$cxx" --version | head -n 1). Date: $(date -u +%F)."
"$work/study" "$@"
