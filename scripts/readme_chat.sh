#!/usr/bin/env bash
# Prints the terminal of a real chat with the built-in model, for the README (needs tmux).
# usage: scripts/readme_chat.sh [LLM]
set -euo pipefail
cd "$(dirname "$0")/.."
llm=${1:-build/llm}
session=readme-$$
state=$(mktemp -d)
trap 'tmux kill-session -t "$session" 2>/dev/null; rm -rf "$state"' EXIT

tmux new-session -d -s "$session" -x 80 -y 50 \
  "env -i HOME='$state' PATH='$PATH' TERM=screen LANG=C.UTF-8 PS1='\$ ' bash --norc"
say() { # types a line and waits until the screen has been still for a second
  tmux send-keys -t "$session" -l -- "$1"
  tmux send-keys -t "$session" Enter
  local before=""
  for _ in $(seq 60); do
    sleep 1
    local now
    now=$(tmux capture-pane -p -t "$session")
    [ "$now" = "$before" ] && return
    before=$now
  done
}
say "alias llm=$(realpath "$llm"); clear"
say "llm chat"
say "What is 47 + 38?"
say "/think off"
say "What is the capital of Japan?"
say "And of Kenya?"
say "中国的首都是哪里？"
say "Who will win the next election?"
say "/exit"
tmux capture-pane -p -t "$session" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
