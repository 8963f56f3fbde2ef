#!/usr/bin/env bash
# What the engine's parts gain and cost: batching, the prefix cache, speculation, 8-bit caches.
# usage: scripts/compare/engine.sh [ROUNDS]
#
# Speeds are of Qwen3-0.6B's shape with random BF16 weights, each figure the median of ROUNDS (5)
# rounds in which all settings take turns. What doesn't depend on the clock, the passes that
# guessing saves and the price of an 8-bit cache, is of the built-in model on texts that it wasn't
# trained on (scripts/tiny/data). COPY_MODEL=DIR adds a copying task on another model. Prints
# Markdown. Needs python3 and 3 GB of memory.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
rounds=${1:-5}
llm=${LLM:-$root/build/llm}
[ -x "$llm" ] || { echo "build/llm is missing: run make first" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=$root/scripts/tiny/data

bench() { "$llm" bench --config qwen3-0.6b --random-weights --reps 1 --format json -q "$@"; }
for ((i = 1; i <= rounds; ++i)); do
  echo "round $i of $rounds" >&2
  bench --batch 1,16 --prompt-len 32 --gen-len 32 >"$work/batch.$i"
  bench --prompt-len 2016 --gen-len 1 >"$work/cold.$i"
  bench --depth 2000 --prompt-len 16 --gen-len 1 --prefix-cache >"$work/hit.$i"
done

python3 - "$data/questions.jsonl" "$work" <<'P'
import json, sys
with open(f"{sys.argv[2]}/questions.jsonl", "w") as all, open(f"{sys.argv[2]}/copying.jsonl", "w") as copying:
    for line in open(sys.argv[1]):
        row = json.loads(line)
        request = {"messages": row["messages"]}
        if row["tools"]:
            request["tools"] = row["tools"]
        all.write(json.dumps(request) + "\n")
        if row["category"] == "copying":
            copying.write(json.dumps(request) + "\n")
P
# guess NAME ARGUMENTS: tokens per pass.
guess() {
  local name=$1
  shift
  "$llm" run "$@" --stats 2>&1 >"$work/answers" | sed -n "s|^speculation .*, \(.*\) tokens per forward pass.*|$name\t\1|p"
}
text=$(head -c 1200 "$data/eval.txt")
{
  guess "500 held-out questions, thinking, --draft tiny-draft" --jsonl "$work/questions.jsonl" --think on --draft tiny-draft
  guess "500 held-out questions, no thinking, --draft tiny-draft" --jsonl "$work/questions.jsonl" --think off --draft tiny-draft
  guess "those of them that ask for a copy, --draft ngram" --jsonl "$work/copying.jsonl" --think off --draft ngram
  if [ -n "${COPY_MODEL:-}" ]; then
    guess "going on with a text a third time, $(basename "$COPY_MODEL"), --draft ngram" -m "$COPY_MODEL" \
      --raw --greedy -n 200 --draft ngram "$text"$'\n\n'"$text"$'\n\n'
  fi
} >"$work/passes"
for type in f32 bf16 fp8 int8; do
  "$llm" eval -m tiny --baseline tiny --text "$data/eval.txt" --kv-dtype "$type" --json -q >"$work/kv.$type"
done

python3 - "$work" "$rounds" <<'P'
import datetime, json, statistics, sys
work, rounds = sys.argv[1], int(sys.argv[2])
read = lambda name: [json.load(open(f"{work}/{name}.{i}")) for i in range(1, rounds + 1)]
batch, cold, hit = read("batch"), read("cold"), read("hit")
machine = batch[0]["machine"]
rate = lambda runs, i: [r["runs"][i]["decode_tok_s"] for r in runs]
ttft = lambda runs: [r["runs"][0]["ttft_ms"]["median"] for r in runs]
median = statistics.median
one, sixteen = rate(batch, 0), rate(batch, 1)
overhead = [r["runs"][1]["step_overhead_percent"] for r in batch]
print(f"Median of {rounds} interleaved rounds, {datetime.date.today()}; {machine['cpu']}, {machine['threads']} threads, "
      f"read {machine['read_gbs']:.1f} GB/s; llm {batch[0]['build']['version']}\n")
print("| Qwen3-0.6B shape, random BF16 weights | | | ratio (median of rounds) |\n|---|---|---|---|")
print(f"| decode tok/s, 1 and 16 requests at once | {median(one):.1f} | {median(sixteen):.1f} | "
      f"{median(b / a for a, b in zip(one, sixteen)):.2f} |")
print(f"| TTFT of 2,016 tokens in ms, computed and 2,000 of them cached | {median(ttft(cold)):.0f} | "
      f"{median(ttft(hit)):.1f} | {median(a / b for a, b in zip(ttft(cold), ttft(hit))):.1f} |")
print(f"| between a step's stages, 16 requests | {median(overhead):.2f} % of the step | | |\n")
print("| guessing | tokens per pass of the model |\n|---|---|")
for line in open(f"{work}/passes"):
    name, tokens = line.rstrip("\n").split("\t")
    print(f"| {name} | {tokens} |")
print("\n| keys and values of `tiny` | perplexity of eval.txt | mean KL to bf16, nats | same most probable token |\n|---|---|---|---|")
for kind in ("f32", "bf16", "fp8", "int8"):
    r = json.load(open(f"{work}/kv.{kind}"))
    print(f"| {kind} | {r['ppl']:.4f} ± {r['ppl_se']:.4f} | {r['kl_mean']:.2e} | {100 * r['top1']:.2f} % |")
P
