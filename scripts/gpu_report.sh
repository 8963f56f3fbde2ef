#!/usr/bin/env bash
# The tables of scripts/gpu_check.sh: what it measured, beside what `llm bench --estimate` predicts.
# usage: LLM=build/llm scripts/gpu_report.sh OUT
# shellcheck disable=SC2016 # the programs in quotes are awk's
set -uo pipefail
out=${1:?usage: LLM=build/llm scripts/gpu_report.sh OUT}
llm=${LLM:-build/llm}
[ -s "$out/devices.txt" ] || "$llm" inspect --devices >"$out/devices.txt"

# The name that `llm bench --gpu` has for the device, or nothing.
gpu_name() {
  case $(grep '^cuda:0' "$out/devices.txt" 2>/dev/null) in
    *H200*) echo h200 ;;
    *H100*PCIe* | *"H100 NVL"*) ;;
    *H100*) echo h100 ;;
    *A100*80GB*) echo a100 ;;
    *L40S*) echo l40s ;;
    *"RTX 4090"*) echo rtx4090 ;;
    *B200*) echo b200 ;;
  esac
}
gpu=${GPU:-$(gpu_name)}

# Of each step that was measured: model, context, batch, predicted and least microseconds (0:
# unknown), and the bandwidth and cost of a launch that the prediction rests on.
predictions() {
  local model context batch
  echo "model,context,batch,predicted_us,limit_us,bandwidth_gbs,phase_us"
  [ -n "$gpu" ] || return
  cat "$out"/step.csv "$out"/many.csv 2>/dev/null |
    sed -nE 's/^(step|many),(qwen[^ ,]*)[^,]*,context=([0-9]+) batch=([0-9]+) overlap,.*/\2 \3 \4/p' |
    sort -u | while read -r model context batch; do
    "$llm" bench -q --estimate --gpu "$gpu" --config "$model" --context "$context" --batch "$batch" |
      awk -v row="$model,$context,$batch" '
        /^limit / { limit = $2 * 1000 }
        /^predicted / { predicted = $2 * 1000 }
        /^\*?[0-9.]+ GB\/s: / { bandwidth = $1; sub(/\*/, "", bandwidth) }
        /^\*?[0-9.]+ us: / { phase = $1; sub(/\*/, "", phase) }
        END { printf "%s,%.1f,%.1f,%s,%s\n", row, predicted, limit, bandwidth, phase }'
  done
}
predictions >"$out/predictions.csv"

# table FILE PROGRAM: awk over a CSV of measurements, if there is one.
table() {
  [ -s "$out/$1" ] || return
  awk -F, '
    function part(name,   words, n, i) {  # of the parameters
      n = split($3, words, " ")
      for (i = 1; i <= n; i++) if (index(words[i], name "=") == 1) return substr(words[i], length(name) + 2)
    }
    function last(   words, n) { n = split($3, words, " "); return words[n] }
    function seen(key) { if (key in known) return 1; known[key] = 1; order[++rows] = key; return 0 }
    function ratio(a, b) { return b > 0 ? sprintf("%.2f", a / b) : "-" }
    function known_us(a) { return a > 0 ? sprintf("%.1f", a) : "-" }
    FILENAME ~ /predictions.csv$/ { if (FNR > 1) { predicted[$1, $2, $3] = $4; limit[$1, $2, $3] = $5; bandwidth = $6; phase = $7 } next }
    FNR == 1 { next }
    '"$2" "$out/predictions.csv" "$out/$1"
}

echo
echo "GPU: $(grep '^cuda:0' "$out/devices.txt" 2>/dev/null || echo unknown)${gpu:+ (predictions: $gpu)}"
[ -n "$gpu" ] || echo "No prediction: nobody's numbers of this GPU are known (llm bench --help, --gpu)."

table ceilings.csv '
  $2 ~ / again$/ { noise = $0; next }
  $2 ~ /^read/ { if ($10 > best[$2]) { best[$2] = $10; how[$2] = $3 } next }
  $2 == "copy" { printf "\nceilings                              measured   predicted  ratio\n%-36s %9.0f %11s %6s\n", "copy, GB/s", $10, bandwidth, ratio($10, bandwidth); next }
  $2 == "chain" { chain[++links] = sprintf("%-36s %9.3f %11s %6s", substr($3, index($3, "blocks")) ", us a launch", $4, phase, ratio($4, phase)) }
  END {
    for (name in best) printf "%-36s %9.0f %11s %6s  %s\n", name ", GB/s", best[name], bandwidth, ratio(best[name], bandwidth), how[name]
    for (i = 1; i <= links; i++) print chain[i]
  }'
if [ -s "$out/step_constants.csv" ]; then
  awk -F, '/^bandwidth_gbs/ { b = $2 } /^phase_us/ { p = $2 }
    END { printf "fit of the steps (overlap): us = bytes / %s GB/s + launches x %s us\n", b, p }' "$out/step_constants.csv"
fi

table step.csv '
  $2 ~ / again$/ { next }
  { key = $2 SUBSEP part("context") SUBSEP part("batch"); seen(key); us[key, last()] = $4 }
  END {
    printf "\ndecode step, us      context    plain  overlap prefetch  predicted  ratio    limit  tok/s\n"
    for (i = 1; i <= rows; i++) {
      key = order[i]; split(key, name, SUBSEP); t = us[key, "overlap"]
      printf "%-20s %7s %8s %8s %8s %10s %6s %8s %6s\n", name[1], name[2], known_us(us[key, "plain"]), known_us(t), known_us(us[key, "overlap+prefetch"]),
        known_us(predicted[key]), ratio(t, predicted[key]), known_us(limit[key]), (t > 0 ? sprintf("%.0f", 1e6 / t) : "-")
    }
  }'

table gemv.csv '
  $2 ~ / again$/ { next }
  { seen($2); value[$2, part("m"), last()] = $10; m[part("m")] = 1 }
  END {
    printf "\nproducts: GB/s of weights, ours/cuBLASLt\n%-20s", ""
    n = split("1 8 16 64", wanted, " ")
    for (j = 1; j <= n; j++) if (wanted[j] in m) printf "  %11s", "m=" wanted[j]
    for (i = 1; i <= rows; i++) {
      printf "\n%-20s", order[i]
      for (j = 1; j <= n; j++) if (wanted[j] in m) printf "  %5.0f/%-5.0f", value[order[i], wanted[j], "ours"], value[order[i], wanted[j], "cuBLASLt"]
    }
    print ""
  }'

table attention.csv '
  $2 ~ / again$/ { next }
  { split($3, w, " "); key = w[4] " " w[1] " " w[2]; seen(key); value[key, w[3]] = $10 }
  END {
    printf "\n%-33s %8s %8s %8s\n", "attention: GB/s of K and V", "bf16", "fp8", "int8"
    for (i = 1; i <= rows; i++) printf "%-33s %8.0f %8.0f %8.0f\n", order[i], value[order[i], "bf16"], value[order[i], "fp8"], value[order[i], "int8"]
  }'

table many.csv '
  $2 ~ / again$/ { next }
  $2 ~ / step$/ { model = $2; sub(/ step$/, "", model); p = predicted[model, part("context"), part("batch")]
    steps = steps sprintf("%-27s %-36s %9.1f us, predicted %s, ratio %s\n", $2, $3, $4, known_us(p), ratio($4, p)); next }
  $2 ~ / append$/ { next }
  { others = others sprintf("%-27s %-36s %9.1f us %8.4g %s\n", $2, $3, $4, $10, $9) }
  END { printf "\nmany rows\n%s%s", steps, others }'

table load.csv '
  $2 ~ / again$/ { next }
  FNR == 2 { print "\nload" }
  { printf "%-27s %-36s %9.1f us %8.4g %s\n", $2, $3, $4, $10, $9 }'

if [ "$(wc -l <"$out/bench.csv" 2>/dev/null)" -gt 1 ] 2>/dev/null; then
  awk -F, '
    FILENAME ~ /predictions.csv$/ { if ($1 == "qwen3-0.6b" && $2 == 1024 && $3 == 1) p = $4 / 1000; next }
    FNR == 1 { printf "\nend to end                  TTFT ms   TPOT ms  prefill tok/s  decode tok/s  predicted TPOT  ratio\n"; next }
    { printf "%-25s %9.2f %9.4f %14.0f %13.1f %15s %6s\n", $1, $2, $3, $4, $5, (p > 0 ? sprintf("%.4f", p) : "-"), (p > 0 ? sprintf("%.2f", $3 / p) : "-") }
  ' "$out/predictions.csv" "$out/bench.csv"
fi
[ -s "$out/first_token.txt" ] && echo "process start to its end after one token: $(cat "$out/first_token.txt")"
cat "$out"/{ceilings,step,gemv,attention,many,load}.csv 2>/dev/null | awk -F, '
  { key = $1 SUBSEP $3 }
  $2 ~ / again$/ && key in first && first[key] > 0 { noise = noise sprintf("  %s %+.1f %%", $1, 100 * ($4 / first[key] - 1)) }
  !(key in first) { first[key] = $4 }
  END { if (noise) print "\nnoise (the first case once more):" noise }'
echo
exit 0
