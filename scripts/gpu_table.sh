#!/usr/bin/env bash
# Prints the table of predicted speeds for the README's section on GPUs; nothing runs on one.
# usage: scripts/gpu_table.sh [LLM]
set -euo pipefail
cd "$(dirname "$0")/.."
llm=${1:-build/llm}
gpus=(h200 h100 rtx4090 a100)

# field NAME JSON: the number or word that follows the name for the first time.
field() { sed -E "s/.*\"$1\":([^,}]*).*/\1/" <<<"$2"; }

# A cell: tokens per second of all requests, and their share of the physical limit.
cell() { # cell MODEL BATCH GPU
  local json mark=''
  json=$("$llm" bench -q --estimate --config "$1" --batch "$2" --gpu "$3" --format json)
  if [ "$(field fits "$json")" = false ]; then
    echo "doesn't fit"
    return
  fi
  [[ $json = *'"borrowed":true'* ]] && mark='\*'
  LC_ALL=C printf '%.0f%s (%.0f %% of %.0f)' "$(field predicted_tok_s "$json")" "$mark" \
    "$(field limit_percent "$json")" "$(field limit_tok_s "$json")"
}

row() { # row LABEL MODEL BATCH
  local gpu line="| $1 |"
  for gpu in "${gpus[@]}"; do line+=" $(cell "$2" "$3" "$gpu") |"; done
  echo "$line"
}

echo "| predicted tok/s | H200 | H100 | RTX 4090 | A100 80 GB |"
echo "|---|---|---|---|---|"
for batch in 1 64; do
  requests=$([ $batch = 1 ] && echo "1 request" || echo "$batch requests")
  for size in 0.6B 4B 8B; do
    row "Qwen3-$size, $requests" "qwen3-${size,,}" "$batch"
  done
done
