#!/usr/bin/env bash
# Speed beside llama.cpp: the same shape with random BF16 weights, the same threads, in turn.
# usage: scripts/compare/llamacpp.sh WORKDIR [ROUNDS]
#
# Builds llama.cpp once in WORKDIR from the source that the PyPI package llama-cpp-python carries
# (GGML_NATIVE), writes a random model of Qwen3-0.6B's shape, and runs both engines alternately.
# Prints a Markdown table of medians. Needs python3 with venv, cmake, a C++ compiler, 4 GB of disk.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,7s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
rounds=${2:-5}
threads=$(nproc)
package=llama-cpp-python==0.3.36
llm=$root/build/llm
[ -x "$llm" ] || { echo "build/llm is missing: run make first" >&2; exit 2; }

venv=$work/venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import gguf, numpy' 2>/dev/null || "$venv/bin/pip" install -q gguf numpy
if [ ! -x "$work/llama-build/bin/llama-bench" ]; then
  "$venv/bin/pip" download -q --no-deps --no-binary :all: -d "$work" "$package"
  tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
  cmake -S "$work"/llama_cpp_python-*/vendor/llama.cpp -B "$work/llama-build" \
    -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_EXAMPLES=OFF >"$work/cmake.log"
  cmake --build "$work/llama-build" --target llama-bench -j "$threads" >"$work/build.log"
fi
model=$work/qwen3-0.6b-random-bf16.gguf
[ -f "$model" ] || { "$venv/bin/python" "$root/scripts/compare/random_gguf.py" "$model.part"; mv "$model.part" "$model"; }

theirs() { "$work/llama-build/bin/llama-bench" -m "$model" -t "$threads" -r 1 -o json "$@" 2>/dev/null; }
ours() { "$llm" bench --config qwen3-0.6b --random-weights -t "$threads" --reps 1 --format json "$@" 2>/dev/null; }
: >"$work/rounds.jsonl"
for ((i = 1; i <= rounds; ++i)); do
  echo "round $i of $rounds" >&2
  theirs -p 512 -n 64 >"$work/theirs.json"
  ours --prompt-len 512 --gen-len 64 >"$work/ours.json"
  theirs -p 0 -n 64 -d 4096 >"$work/theirs_deep.json"
  ours --prompt-len 16 --gen-len 64 --depth 4096 >"$work/ours_deep.json"
  "$venv/bin/python" - "$work" <<'P' >>"$work/rounds.jsonl"
import json, sys
read = lambda name: json.load(open(f"{sys.argv[1]}/{name}.json"))
rate = lambda rows, key: next(r["avg_ts"] for r in rows if r[key] > 0)
a, b, c, d = map(read, ("theirs", "theirs_deep", "ours", "ours_deep"))
mine, deep = c["runs"][0], d["runs"][0]
print(json.dumps({
    "machine": c["machine"], "version": c["build"]["version"], "their_commit": a[0]["build_commit"],
    "prefill 512": [mine["prefill_tok_s"], rate([r for r in a if r["n_gen"] == 0], "n_prompt")],
    "decode": [mine["decode_tok_s"], rate([r for r in a if r["n_prompt"] == 0], "n_gen")],
    "decode at depth 4096": [deep["decode_tok_s"], rate(b, "n_gen")],
    "decode, % of read bandwidth": [mine["decode_bandwidth_percent"], None],
    "prefill, % of multiply peak": [mine["prefill_peak_percent"], None],
}))
P
done
"$venv/bin/python" - "$work/rounds.jsonl" "$package" "$threads" <<'P'
import datetime, json, statistics, sys
rounds = [json.loads(line) for line in open(sys.argv[1])]
machine = rounds[0]["machine"]
print(f"Qwen3-0.6B shape, random BF16 weights, {sys.argv[3]} threads, median of {len(rounds)} interleaved rounds, "
      f"{datetime.date.today()}")
print(f"{machine['cpu']}; read {machine['read_gbs']:.1f} GB/s, BF16 multiply {machine['bf16_gflops'] or 0:.0f} GFLOP/s; "
      f"llm {rounds[0]['version']}, {sys.argv[2]} ({rounds[0]['their_commit']})\n")
print("| tokens per second | llm | llama.cpp | ratio (median of pairs) |\n|---|---|---|---|")
for name, value in rounds[0].items():
    if not isinstance(value, list):
        continue
    pairs = [r[name] for r in rounds]
    mine = statistics.median(p[0] for p in pairs)
    if value[1] is None:
        print(f"| {name} | {mine:.1f} | | |")
        continue
    theirs = statistics.median(p[1] for p in pairs)
    print(f"| {name} | {mine:.1f} | {theirs:.1f} | {statistics.median(p[0] / p[1] for p in pairs):.2f} |")
P
