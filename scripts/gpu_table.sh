#!/usr/bin/env bash
# Prints the table of predicted speeds for the README's section on GPUs; nothing runs on one.
# usage: scripts/gpu_table.sh [LLM]
set -euo pipefail
cd "$(dirname "$0")/.."
llm=${1:-build/llm}
gpus=(h200 h100 rtx4090 a100)
sizes=(0.6B 4B 8B)
export LC_ALL=C

estimate() { # estimate SIZE BATCH GPU
  "$llm" bench -q --estimate --config "qwen3-${1,,}" --batch "$2" --gpu "$3" --format json
}
# field NAME JSON: the number or word after the name.
field() { sed -E "s/.*\"$1\":([^,}]*).*/\1/" <<<"$2"; }

# A cell: tokens per second of all requests, and their share of the physical limit.
cell() { # cell SIZE BATCH GPU
  local json mark=''
  json=$(estimate "$@")
  if [ "$(field fits "$json")" = false ]; then
    echo "doesn't fit"
    return
  fi
  [[ $json = *'"borrowed":true'* ]] && mark='\*'
  printf '%.0f%s (%.0f %% of %.0f)' "$(field predicted_tok_s "$json")" "$mark" \
    "$(field limit_percent "$json")" "$(field limit_tok_s "$json")"
}

row() { # row SIZE BATCH
  local gpu line
  line="| Qwen3-$1, $2 request$([ "$2" = 1 ] || echo s) |"
  for gpu in "${gpus[@]}"; do line+=" $(cell "$1" "$2" "$gpu") |"; done
  echo "$line"
}

# The targets of a GPU, each with the prediction's distance in per cent.
targets() { # targets GPU
  local size json list=''
  for size in "${sizes[@]}"; do
    json=$(estimate "$size" 1 "$1")
    [ "$(field target_tok_s "$json")" = null ] && continue
    list+=$(printf '%s%s %.0f (%+.1f %%)' "${list:+, }" "$size" "$(field target_tok_s "$json")" \
      "$(field above_target_percent "$json")")
  done
  echo "${1^^} $list"
}

echo "| predicted tok/s | H200 | H100 | RTX 4090 | A100 80 GB |"
echo "|---|---|---|---|---|"
for batch in 1 64; do
  for size in "${sizes[@]}"; do row "$size" "$batch"; done
done
echo
echo "Targets for one request, and how far the prediction is from them: $(targets h200); $(targets h100)."
