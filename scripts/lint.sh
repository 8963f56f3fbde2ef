#!/usr/bin/env bash
# House rules that a compiler doesn't check. usage: scripts/lint.sh (or `make lint`)
# One line per check: ok, FAILED with the places, or skipped where the tool isn't installed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
failed=0

mapfile -t files < <(git ls-files -co --exclude-standard | while read -r f; do [ -f "$f" ] && echo "$f"; done)
select_files() { printf '%s\n' "${files[@]}" | grep -E "$1" || true; }
mapfile -t cpp < <(select_files '\.(cpp|h|cu|cuh)$')
mapfile -t shell < <(select_files '(\.sh|^\.ci/run)$')
mapfile -t python < <(select_files '\.py$')

# report NAME FINDINGS: findings, one a line, fail the check.
report() {
  if [ -z "$2" ]; then
    echo "lint: $1: ok"
  else
    printf 'lint: %s: FAILED\n%s\n' "$1" "$2"
    failed=1
  fi
}
have() { # have TOOL CHECK
  command -v "$1" >/dev/null && return
  echo "lint: $2: skipped ($1 is not installed)"
  return 1
}

# ---- Layers: which folders of src each folder may include, itself aside ----
declare -A below=(
  [base]=""
  [io]="base"
  [text]="base"
  [quant]="base"
  [backend]="quant base"
  [cuda]="backend quant base"
  [measure]="cuda engine model backend quant base" # cuda/measure, a program of its own
  [model]="backend quant base io"
  [engine]="model backend quant base io text"
  [cli]="engine model backend quant base io text"
  [main.cpp]="cli engine model backend quant base io text"
)
layers() {
  local line file from to
  grep -nE '^#include "[a-z_]+/' -r src cuda --include='*.h' --include='*.cpp' --include='*.cu' \
    --include='*.cuh' | while IFS= read -r line; do
    file=${line%%:*}
    from=${file#src/}
    [[ $from = cuda/measure/* ]] && from=measure
    from=${from%%/*}
    to=$(sed -E 's|.*#include "([a-z_]+)/.*|\1|' <<<"$line")
    [ -n "${below[$from]+known}" ] || echo "  $file: folder $from has no place in scripts/lint.sh"
    [[ $to = "$from" || " ${below[$from]-} " = *" $to "* ]] || echo "  $line"
  done
}
report "includes point down" "$(layers)"

report "json and CLI11 only in .cpp files" \
  "$(grep -nE '#include <(nlohmann|CLI)/' -r src --include='*.h' | sed 's/^/  /')"

# ---- Length ----
lengths() { # lengths FROM TO: files with FROM < lines <= TO
  local f n
  for f in "${cpp[@]}" "${python[@]}" "${shell[@]}" Makefile; do
    [[ $f = *_tables.cpp ]] && continue # generated
    n=$(wc -l <"$f")
    ((n > $1 && n <= $2)) && echo "  $f: $n lines"
  done
}
long=$(lengths 400 600)
[ -n "$long" ] && printf 'lint: note: over 400 lines\n%s\n' "$long"
report "no file over 600 lines" "$(lengths 600 1000000)"

# ---- Text ----
report "no absolute paths of one machine" \
  "$(printf '%s\0' "${files[@]}" | xargs -0 grep -InE '(^|[^A-Za-z0-9_.])/(work|root)/|/home/[a-z]' | sed 's/^/  /')"
report "no CUDA launches outside cuda/" \
  "$(printf '%s\n' "${cpp[@]}" | grep -v '^cuda/' | xargs grep -nE '[A-Za-z0-9_>]<<<.*>>> *\(' | sed 's/^/  /')"

# The list of goldens that don't pass yet may only shrink.
growth() {
  local first list=tests/pending_goldens.txt
  first=$(git log --diff-filter=A --format=%H -- "$list" 2>/dev/null | tail -1)
  [ -n "$first" ] || return 0
  comm -13 <(git show "$first:$list" | sort) <(sort "$list") | sed 's/^/  /'
}
report "no new pending goldens" "$(growth)"

# ---- Formats and scripts ----
have clang-format "clang-format" &&
  report "clang-format" "$(clang-format --dry-run -Werror "${cpp[@]}" 2>&1 | grep 'error:' | cut -d: -f1 |
    sort | uniq -c | sed 's/^/  /')"
report "bash -n" "$(for f in "${shell[@]}"; do bash -n "$f" 2>&1; done)"
have shellcheck "shellcheck" && report "shellcheck" "$(shellcheck "${shell[@]}")"
compile_python='import sys
for f in sys.argv[1:]: compile(open(f, encoding="utf8").read(), f, "exec")'
have python3 "python scripts" && report "python scripts" "$(python3 -c "$compile_python" "${python[@]}" 2>&1)"

# ---- A second compiler ----
have clang++ "clang++ finds no fault" &&
  report "clang++ finds no fault" "$(make --no-print-directory -s V=1 -k -j"$(nproc)" CXX=clang++ \
    BUILD="$build/clang" CXXFLAGS="-fsyntax-only -Werror" objects 2>&1)"

# ---- Instruction sets ----
# An inline function compiled for AVX-512 is a weak symbol that the linker may choose for everybody,
# and a static initializer runs on every CPU.
weak_symbols() {
  local object
  for object in "$build"/src/*/*_avx*.o "$build"/src/*/*/*_avx*.o; do
    [ -e "$object" ] && nm -C --defined-only "$object" | grep -E ' [WVu] |_GLOBAL__' | sed "s|^|  $object: |"
  done
}
have nm "kernels keep their code to themselves" &&
  { make --no-print-directory -s -j"$(nproc)" BUILD="$build" "$build/llm" || failed=1; } &&
  report "kernels keep their code to themselves" "$(weak_symbols)"

# ---- CUDA kernels ----
# Another nvcc gives other registers: only the table's own is compared.
if [ -e "$build/cuda/rows.ptxas" ]; then
  table=tests/cuda/kernel_resources.txt
  resources=$(scripts/kernel_resources.sh "$build")
  if [ "$(head -1 <<<"$resources")" = "$(head -1 $table)" ]; then
    report "registers and shared memory of kernels are as in $table" \
      "$(diff $table - <<<"$resources" | sed 's/^/  /')"
  else
    echo "lint: registers and shared memory of kernels: skipped ($(head -1 $table | cut -c3-) made the table)"
  fi
fi

if [ $failed = 0 ]; then echo "lint: passed"; else echo "lint: FAILED"; fi
exit $failed
