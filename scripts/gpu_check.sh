#!/usr/bin/env bash
# Checks and measures the GPU part on a machine with an NVIDIA GPU, in one go, unattended and within
# nine minutes: first whether kernels, whole models and the program compute right, then how fast they
# are, beside what was predicted. Goes on when a step fails. Ends with 0 if none failed.
#
# usage: scripts/gpu_check.sh OUT [STEP...]
#
# OUT, a folder, gets checks.csv (a row a step), STEP.log (what each said), STEP.csv and bench.csv
# (measurements), predictions.csv, step_constants.csv (for `llm bench --estimate --gpu-constants`)
# and report.txt. Without STEPs all are done, in this order:
#
#   STEPS
#
# Variables: LLM, LLM_GPU_TESTS, LLM_GPU_MEASURE (programs built elsewhere; what is missing is built
# here), LLM_TEST_DATA (folder of reference data, else its tests are skipped), GPU (a name of
# `llm bench --gpu`, if not to be guessed), TOTAL_SECONDS (520). SMALL=1 is a rehearsal: with
# LLM=build/llm_emu LLM_GPU_TESTS=build/llm_tests LLM_GPU_MEASURE=build/llm_measure_emu it needs no GPU.
set -uo pipefail

correctness=(device rows_test linear_small_test gemm_test attention_prefill_test
  attention_decode_test gemm_cublaslt_test sample_test cuda_model_test tokens batches repeats
  cuda_loop_test cuda_engine_test)
measurements=(ceilings step gemv attention many load)
end_to_end=(bench bench_no_graphs bench_no_overlap bench_prefetch first_token memcheck)
all_steps=("${correctness[@]}" "${measurements[@]}" "${end_to_end[@]}")
kSkipped=3          # exit status of a step that this machine lacks something for
kCorrectSeconds=${SMALL:+1}180 # most for all of the first group, after the build

usage() {
  awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$1" |
    sed "s/^  STEPS$/  ${correctness[*]}\n  ${measurements[*]}\n  ${end_to_end[*]}/" | fold -s -w 100
}

# Most seconds for one step.
limit_of() {
  [ -n "${SMALL-}" ] && echo 300 && return # the emulator may have a busy machine
  case $1 in
    build) echo 300 ;;
    device | repeats | load | bench* | first_token) echo 40 ;;
    *) echo 60 ;;
  esac
}

# ---- Steps, each in a process of its own, so that it can be ended ----

skip() {
  echo "skipped: $*"
  exit $kSkipped
}

missing_programs() {
  local program
  for program in "$llm" "$gpu_tests" "$measure"; do [ -x "$program" ] || echo "$program"; done
}

build() {
  [ -z "$(missing_programs)" ] && return
  local arch
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  scripts/setup.sh && make -j"$(nproc)" LDFLAGS=-s CUDA=1 CUDA_ARCHS="$arch" \
    build/llm build/llm_gpu_tests build/llm_gpu_measure
}

device() {
  nvidia-smi 2>/dev/null
  "$llm" --version && "$llm" inspect --devices --json && "$llm" inspect --devices | tee "$out/devices.txt" &&
    grep -q '^cuda:0 .* free$' "$out/devices.txt"
}

has_cublaslt() { "$llm" inspect --devices | grep -qE '^cuBLASLt +[0-9]'; }

# The tests of one file, on the GPU.
tests() {
  [ "$1" = gemm_cublaslt_test ] && ! has_cublaslt && skip "cuBLASLt isn't installed"
  LLM_BINARY=$llm "$gpu_tests" -sf="*tests/cuda/$1.cpp" ${TEST_CASES:+-tc="$TEST_CASES"} | tee "$out/$1.found"
  local status=${PIPESTATUS[0]}
  grep -qE '^0 passed, 0 failed, [1-9]' "$out/$1.found" && skip "$(tail -n 1 "$out/$1.found")"
  [ -n "${SMALL-}" ] && grep -qE '^0 passed, 0 failed, 0' "$out/$1.found" &&
    "$gpu_tests" -sf="*tests/cuda/$1.cpp" -c | grep -qE 'filters: [1-9]' && skip "too slow for a rehearsal"
  ! grep -q '^0 passed' "$out/$1.found" && return "$status"
}

# margin PROMPT I: by how much the CPU's most probable id i is more probable than the next, in nats.
margin() {
  "$llm" run -q --device cpu --act bf16 -n $(($2 + 1)) --json --logprobs 2 "$1" |
    grep -o '"top":\[[^]]*\]' | sed -n "$(($2 + 1))p" | grep -o '"logprob":[-0-9.e]*' |
    awk -F: '{ p[NR] = $2 } END { if (NR < 2) exit 1; printf "%.4f\n", p[1] - p[2] }'
}

# first_difference A B: how many ids two files of `--print-ids` have alike at the start.
first_difference() {
  awk '/^ids:/ { n++; for (i = 2; i <= NF; i++) id[n, i] = $i; if (NF > most) most = NF }
    END { for (i = 2; i <= most; i++) if (id[1, i] != id[2, i]) { print i - 2; exit } }' "$1" "$2"
}

# The built-in model's greedy tokens on the GPU are the CPU's, but where the CPU itself nearly chose
# another: within a tenth of a nat.
tokens() {
  local prompt id at nats differing=0 wrong=0 count=0
  for prompt in "What is 47 + 38?" "Tell me a story about a fox." "中国的首都是哪里？" "Count from 3 to 20." \
    "How many metres are 3 km?" "Spell house."; do
    for id in cpu cuda; do
      "$llm" run -q --device "$id" --act bf16 -n "${TOKENS:-60}" --print-ids "$prompt" 2>"$out/$id.ids" \
        >/dev/null || { cat "$out/$id.ids"; return 1; }
    done
    count=$((count + 1))
    at=$(first_difference "$out/cpu.ids" "$out/cuda.ids")
    [ -z "$at" ] && continue
    nats=$(margin "$prompt" "$at")
    echo "differs from id $at on, which the CPU chose by ${nats:-?} nats: $prompt"
    differing=$((differing + 1))
    awk -v nats="${nats:-1}" 'BEGIN { exit !(nats > 0.1) }' && wrong=$((wrong + 1))
  done
  echo "$differing of $count answers differ from the CPU's: $wrong of them without a near tie"
  [ "$wrong" = 0 ]
}

requests() {
  local i
  for i in $(seq "${REQUESTS:-24}"); do
    echo "{\"prompt\": \"What is $i + $((i * 7 % 30))?\", \"think\": \"off\", \"max_tokens\": ${TOKENS:-20}}"
  done
}
ids() { sed -E 's/.*"ids":(\[[^]]*\]).*/\1/'; }

# One request at a time, and all together with guesses, give the same tokens.
batches() {
  requests >"$out/requests.jsonl"
  "$llm" run -q --device cuda --invariant --jsonl "$out/requests.jsonl" --max-num-seqs 1 |
    ids >"$out/alone.ids" || return 1
  "$llm" run -q --device cuda --invariant --jsonl "$out/requests.jsonl" --max-num-seqs 16 \
    --draft tiny-draft --max-num-batched-tokens 192 | ids >"$out/together.ids" || return 1
  diff "$out/alone.ids" "$out/together.ids" && echo "the same tokens alone and together"
}

# The logits of a prompt, ten times over: the same bits.
repeats() {
  local i sums
  for i in $(seq "${REPEATS:-10}"); do
    "$llm" run -q --device cuda --raw -n 0 --logits-out "$out/logits.npy" "The quick brown fox" &&
      sha256sum "$out/logits.npy" || return 1
  done >"$out/repeats.sums"
  sums=$(cut -d' ' -f1 "$out/repeats.sums" | sort -u | wc -l)
  echo "$sums different results of the same prompt"
  [ "$sums" = 1 ]
}

measured() {
  "$measure" ${SMALL:+--small} "$out/$1.csv" "$1"
  local status=$?
  echo "$(($(wc -l <"$out/$1.csv") - 1)) measurements"
  return $status
}

# End to end, with the engine and its scheduler: bench NAME [OPTION...].
bench() {
  local name=$1 json workload=(--config qwen3-0.6b --random-weights=bf16 --prompt-len 1024 --gen-len 64 --reps 3)
  shift
  [ -n "${SMALL-}" ] && workload=(--prompt-len 4 --gen-len 2 --reps 1 --warmup 0)
  json=$("$llm" bench -q --device cuda --batch 1 "${workload[@]}" --format json "$@") || return 1
  echo "$json"
  value() { sed -E "s/.*\"$1\":([-0-9.e]+).*/\1/" <<<"$json"; }
  median() { sed -E "s/.*\"$1\":\{[^}]*\"median\":([-0-9.e]+).*/\1/" <<<"$json"; }
  echo "$name,$(median ttft_ms),$(median tpot_ms),$(value prefill_tok_s),$(value decode_tok_s)" >>"$out/bench.csv"
  tail -n 1 "$out/bench.csv" | awk -F, '{ printf "TTFT %.2f ms TPOT %.4f ms\n", $2, $3 }'
}

# From the start of the process to its end after one token of the built-in model.
first_token() {
  local i begin
  for i in 1 2 3 4 5; do
    begin=$(date +%s%N)
    "$llm" run -q --device cuda --think off -n 1 "Hi" >/dev/null || return 1
    echo $((($(date +%s%N) - begin) / 1000))
    [ -n "${SMALL-}" ] && break
  done | tee "$out/first_token.us"
  sort -n "$out/first_token.us" | awk '{ us[NR] = $1 }
    END { if (NR == 0) exit 1; printf "%.0f ms, median of %d\n", us[int((NR + 1) / 2)] / 1000, NR }' |
    tee "$out/first_token.txt"
}

memcheck() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    skip "there is no compute-sanitizer"
  "$sanitizer" --tool memcheck --error-exitcode 9 "$llm" run -q --device cuda --think off -n 4 "Hi"
}

run_step() {
  case $1 in
    build | device | tokens | batches | repeats | first_token | memcheck) "$1" ;;
    ceilings | step | gemv | attention | many | load) measured "$1" ;;
    bench) bench plain ;;
    bench_no_graphs) bench no-graphs --gpu-tuning no-graphs ;;
    bench_no_overlap) bench no-overlap --gpu-tuning no-overlap ;;
    bench_prefetch) bench prefetch --gpu-tuning prefetch ;;
    *) tests "$1" ;;
  esac
}

if [ "${1-}" = --step ]; then
  out=$2 llm=$LLM gpu_tests=$LLM_GPU_TESTS measure=$LLM_GPU_MEASURE
  run_step "$3"
  exit
fi

# ---- What is asked for ----

case ${1-} in
  '' | -h | --help)
    usage "$0"
    [ -n "${1-}" ]
    exit $(($? * 2))
    ;;
  -*)
    echo "gpu_check: unknown option $1; scripts/gpu_check.sh --help has the usage" >&2
    exit 2
    ;;
esac
from_here() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }
out=$(from_here "$1")
shift
for step in "$@"; do
  [[ " ${all_steps[*]} " = *" $step "* ]] && continue
  echo "gpu_check: no step \"$step\": there are ${all_steps[*]}" >&2
  exit 2
done
# Given paths count from the caller's folder, ours from the repository.
repository=$(cd "$(dirname "$0")/.." && pwd) || exit 1
llm=${LLM:+$(from_here "$LLM")} llm=${llm:-$repository/build/llm}
gpu_tests=${LLM_GPU_TESTS:+$(from_here "$LLM_GPU_TESTS")} gpu_tests=${gpu_tests:-$repository/build/llm_gpu_tests}
measure=${LLM_GPU_MEASURE:+$(from_here "$LLM_GPU_MEASURE")} measure=${measure:-$repository/build/llm_gpu_measure}
[ -n "${LLM_TEST_DATA-}" ] && LLM_TEST_DATA=$(from_here "$LLM_TEST_DATA") && export LLM_TEST_DATA
export LLM=$llm LLM_GPU_TESTS=$gpu_tests LLM_GPU_MEASURE=$measure
cd "$repository" || exit 1

# ---- Whether it can be done here ----

# cuBLASLt may have come with a Python package.
for place in /usr/local/lib/python3*/*-packages/nvidia/{cu13,cublas}/lib \
  /opt/*/lib/python3*/*-packages/nvidia/{cu13,cublas}/lib; do
  [ -d "$place" ] && LD_LIBRARY_PATH=$place${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH

stop() {
  echo "gpu_check: $*" >&2
  exit 1
}
if [ -x "$llm" ]; then
  devices=$("$llm" inspect --devices 2>&1)
  grep -q '^cuda:0' <<<"$devices" || stop "there is no GPU that $llm can use: $(grep '^cuda' <<<"$devices" || echo "$devices")"
elif ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  stop "there is no NVIDIA GPU here, or no driver for it (nvidia-smi -L lists none)"
fi
missing=$(missing_programs | head -1)
if [ -n "$missing" ]; then
  case $missing in "$repository"/build/*) ;; *) stop "$missing can't be run: is its path right?" ;; esac
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
    stop "$missing isn't built and there is no nvcc: install the CUDA toolkit, or set LLM, LLM_GPU_TESTS and LLM_GPU_MEASURE to programs built elsewhere"
fi

# ---- All steps ----

mkdir -p "$out" || exit 1
steps=("$@")
[ ${#steps[@]} = 0 ] && steps=("${all_steps[@]}")
rm -f "$out"/*.csv "$out/first_token.txt"
total=${TOTAL_SECONDS:-${SMALL:+1}520}
failed=0 left_out=0 correct_until=$total
SECONDS=0
echo "variant,ttft_ms,tpot_ms,prefill_tok_s,decode_tok_s" >"$out/bench.csv"
echo "step,result,seconds,detail" | tee "$out/checks.csv"
for step in build "${steps[@]}"; do
  begin=$SECONDS limit=$(limit_of "$step") until=$total
  [[ " ${correctness[*]} " = *" $step "* ]] && until=$correct_until
  [ $((until - begin)) -lt "$limit" ] && limit=$((until - begin))
  if [ "$limit" -lt 5 ]; then
    result="left out" left_out=$((left_out + 1)) detail="no time was left"
  else
    timeout -k 5 "$limit" scripts/gpu_check.sh --step "$out" "$step" >"$out/$step.log" 2>&1
    case $? in
      0) result=passed ;;
      "$kSkipped") result=skipped ;;
      124 | 137) result="FAILED (over $limit s)" failed=$((failed + 1)) ;;
      *) result=FAILED failed=$((failed + 1)) ;;
    esac
    detail=$(tail -n 1 "$out/$step.log" | tr -d ',"' | tr -s ' ' | cut -c 1-70)
  fi
  echo "$step,$result,$((SECONDS - begin)),$detail" | tee -a "$out/checks.csv"
  [ "$step" = build ] && [ $((SECONDS + kCorrectSeconds)) -lt "$total" ] &&
    correct_until=$((SECONDS + kCorrectSeconds))
done
scripts/gpu_report.sh "$out" >"$out/report.txt"
head -c 9500 "$out/report.txt"
[ "$(wc -c <"$out/report.txt")" -gt 9500 ] && echo "... (the rest is in $out/report.txt)"
summary="$failed of $((${#steps[@]} + 1)) steps failed, $left_out left out, in $SECONDS s; see $out"
if [ $failed = 0 ]; then echo "gpu_check: passed ($summary)"; else echo "gpu_check: FAILED ($summary)"; fi
[ $failed = 0 ]
