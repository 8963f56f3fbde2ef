#!/usr/bin/env bash
# Has a built llm write its manual page, reference and shell completions below PREFIX, where the
# tools look for them. usage: scripts/install_docs.sh LLM PREFIX
set -euo pipefail
llm=$1
share=$2/share

put() { # put FILE OPTION...: what llm prints for the options
  mkdir -p "$(dirname "$share/$1")"
  "$llm" "${@:2}" >"$share/$1"
  chmod 644 "$share/$1"
  echo "install $share/$1"
}
put man/man1/llm.1 --man
put doc/llm/commands.md --reference
put bash-completion/completions/llm --completion bash
put zsh/site-functions/_llm --completion zsh
put fish/vendor_completions.d/llm.fish --completion fish
