#!/usr/bin/env bash
# Checks the GPU part on a machine with an NVIDIA GPU, in one go and unattended: is what the kernels,
# whole models and the program compute right? Goes on when a step fails; the table at the end and
# OUT/checks.csv have all of them, OUT/STEP.log what each said. Ends with 0 if all passed.
#
# usage: scripts/gpu_check.sh OUT [STEP...]
#   LLM=build/llm LLM_GPU_TESTS=build/llm_gpu_tests   carried binaries; what is missing is built
#   LLM_TEST_DATA=DIR                                 the reference data, else its tests are skipped
#   LLM=build/llm_emu LLM_GPU_TESTS=build/llm_tests   a rehearsal on the emulator
# Steps: device, the kernels and models (a file of tests/cuda each), tokens, batches, repeats.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
llm=${LLM:-build/llm}
gpu_tests=${LLM_GPU_TESTS:-build/llm_gpu_tests}
step_seconds=${STEP_SECONDS:-120} # most that one step may take
# cuBLASLt may have come with a Python package.
for place in /usr/local/lib/python3*/*-packages/nvidia/{cu13,cublas}/lib \
  /opt/*/lib/python3*/*-packages/nvidia/{cu13,cublas}/lib; do
  [ -d "$place" ] && LD_LIBRARY_PATH=$place${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH

build() {
  [ -x "$llm" ] && [ -x "$gpu_tests" ] && return
  local arch
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  make -j"$(nproc)" LDFLAGS=-s CUDA=1 CUDA_ARCHS="$arch" "$llm" "$gpu_tests"
}

device() {
  nvidia-smi 2>/dev/null
  "$llm" --version && "$llm" inspect --devices --json && "$llm" inspect --devices | tee "$out/devices.txt" &&
    grep -q '^cuda:0 .* free$' "$out/devices.txt" && grep -E '^cuBLASLt +[0-9]' "$out/devices.txt"
}

# The tests of one file, on the GPU.
tests() {
  LLM_BINARY=$llm "$gpu_tests" -sf="*tests/cuda/$1.cpp" | tee "$out/$1.found"
  local status=${PIPESTATUS[0]}
  ! grep -q '^0 passed' "$out/$1.found" && return "$status"
}

# The built-in model's greedy tokens on the GPU are the CPU's. The emulator is slow: fewer tokens.
tokens() {
  local prompt id different=0 count=0 limit=${TOKENS:-60}
  for prompt in "What is 47 + 38?" "Tell me a story about a fox." "中国的首都是哪里？" "Count from 3 to 20." \
    "How many metres are 3 km?" "Spell house."; do
    for id in cpu cuda; do
      "$llm" run -q --device "$id" --act bf16 -n "$limit" --print-ids "$prompt" 2>"$out/$id.ids" >/dev/null ||
        { cat "$out/$id.ids"; return 1; }
    done
    count=$((count + 1))
    cmp -s "$out/cpu.ids" "$out/cuda.ids" || { different=$((different + 1)); diff "$out/cpu.ids" "$out/cuda.ids"; }
  done
  echo "$different of $count answers differ from the CPU's"
  [ "$different" -le 2 ] # where the CPU nearly chose another token
}

requests() {
  local i
  for i in $(seq "${REQUESTS:-24}"); do
    echo "{\"prompt\": \"What is $i + $((i * 7 % 30))?\", \"think\": \"off\", \"max_tokens\": 20}"
  done
}

# One request at a time, and all together with guesses, give the same tokens.
batches() {
  requests >"$out/requests.jsonl"
  "$llm" run -q --device cuda --invariant --jsonl "$out/requests.jsonl" --max-num-seqs 1 |
    ids >"$out/alone.ids" || return 1
  "$llm" run -q --device cuda --invariant --jsonl "$out/requests.jsonl" --max-num-seqs 16 \
    --draft tiny-draft --max-num-batched-tokens 192 | ids >"$out/together.ids" || return 1
  diff "$out/alone.ids" "$out/together.ids" && echo "the same tokens alone and together"
}
ids() { sed -E 's/.*"ids":(\[[^]]*\]).*/\1/'; }

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

# One step, in a process of its own, so that it can be ended.
if [ "${1-}" = --step ]; then
  out=$2
  case $3 in
    build) build ;;
    device) device ;;
    tokens) tokens ;;
    batches) batches ;;
    repeats) repeats ;;
    *) tests "$3" ;;
  esac
  exit
fi

out=${1:?usage: scripts/gpu_check.sh OUT [STEP...]}
shift
steps=("$@")
[ ${#steps[@]} = 0 ] && steps=(device rows_test linear_small_test gemm_test attention_prefill_test
  attention_decode_test gemm_cublaslt_test cuda_model_test cuda_engine_test tokens batches repeats)
mkdir -p "$out"
echo "step,result,seconds,detail" | tee "$out/checks.csv"
failed=0
for step in build "${steps[@]}"; do
  begin=$(date +%s) limit=$step_seconds
  [ "$step" = build ] && limit=400
  timeout -k 10 "$limit" scripts/gpu_check.sh --step "$out" "$step" >"$out/$step.log" 2>&1
  status=$?
  case $status in
    0) result=passed ;;
    124 | 137) result="FAILED (over $limit s)" failed=1 ;;
    *) result=FAILED failed=1 ;;
  esac
  detail=$(tail -n 1 "$out/$step.log" | tr -d ',"' | cut -c 1-100)
  echo "$step,$result,$(($(date +%s) - begin)),$detail" | tee -a "$out/checks.csv"
done
if [ $failed = 0 ]; then echo "gpu_check: passed"; else echo "gpu_check: FAILED (see $out)"; fi
exit $failed
