#!/usr/bin/env bash
# Downloads a model from the Hugging Face hub into its cache, where `llm -m` and other programs find
# it. Goes on with what an earlier run left; nothing takes its place before its checksum is right.
#
# usage: scripts/download_model.sh [options] ALIAS|Owner/Name
#   --dry-run        list the files and what of each is missing
#   --jobs N         files at once (4)
#   --retries N      tries in a row without progress before giving up (5)
#   --retry-delay S  seconds before the second try, doubled for each further one (1)
#
# ALIAS is a name in models.txt. The folder with the model is printed on stdout, progress goes to
# stderr. Environment, as for huggingface_hub: HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN.
# Needs bash, curl, coreutils, util-linux and awk. Exit codes: 0 done, 1 failed (run it again to go
# on), 2 can't be done, 130 interrupted.
set -uo pipefail
unset POSIXLY_CORRECT && set +o posix # ulimit would count other blocks
export LC_ALL=C
umask 022

say() { printf '%s\n' "$*" >&2; }
die() { # die CODE MESSAGE
  local code=$1
  shift
  say "download: $*"
  exit "$code"
}

# ---- Command line ----
model='' dry_run='' jobs=4 retries=5 retry_delay=1
whole_number() { # whole_number FLAG TEXT
  [[ $2 =~ ^[0-9]{1,4}$ ]] || die 2 "$1 \"$2\": expected a whole number"
}
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=1 ;;
    --jobs | --retries | --retry-delay)
      [ $# -gt 1 ] || die 2 "$1 needs a value"
      whole_number "$1" "$2"
      case $1 in
        --jobs) jobs=$((10#$2 > 0 ? 10#$2 : 1)) ;;
        --retries) retries=$((10#$2)) ;;
        --retry-delay) retry_delay=$((10#$2)) ;;
      esac
      shift
      ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) die 2 "unknown option $1 (see --help)" ;;
    *)
      [ -z "$model" ] || die 2 "one model at a time: $model, and also $1?"
      model=$1
      ;;
  esac
  shift
done
[ -n "$model" ] || die 2 "which model? Give a name out of models.txt, or Owner/Name"
for tool in curl awk sha256sum sha1sum flock stat df; do
  command -v "$tool" >/dev/null || die 2 "$tool is not installed"
done

# find_alias NAME: its hub id out of models.txt, which lies beside this script or above its folder.
find_alias() {
  local here list
  here=$(cd "$(dirname "$0")" && pwd)
  for list in "$here/models.txt" "$here/../models.txt"; do
    [ -f "$list" ] || continue
    awk -v name="$1" '!/^#/ && $1 == name { print $2 }' "$list"
    return
  done
}
id=$model
if [[ $model != */* ]]; then
  id=$(find_alias "$model")
  [ "$id" != - ] || die 2 "$model is built into llm: there is nothing to download"
  [ -n "$id" ] || die 2 "\"$model\" is neither a name in models.txt nor a hub id Owner/Name"
fi
[[ $id =~ ^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$ && ! "/$id/" =~ /\.\.?/ ]] ||
  die 2 "\"$id\" is not a hub id Owner/Name"

# ---- Where from and where to ----
case ${HF_HUB_OFFLINE:-0} in 1 | [Oo][Nn] | [Tt][Rr][Uu][Ee] | [Yy][Ee][Ss])
  die 2 "HF_HUB_OFFLINE is set: unset it to download" ;;
esac
endpoint=${HF_ENDPOINT:-https://huggingface.co}
endpoint=${endpoint%/}
[[ $endpoint =~ ^https?://[^[:space:]\"\\]+$ ]] || die 2 "HF_ENDPOINT=$endpoint is not a web address"
insecure='' # a redirect may lead away from https only where we didn't ask for it
[[ $endpoint = https:* ]] || insecure=1
token=${HF_TOKEN:-}
[[ $token =~ ^[!-~]*$ && $token != *[\"\\]* ]] ||
  die 2 "HF_TOKEN holds characters that no token has (a line end, a quote?)"
if [ -n "${HF_HUB_CACHE:-}" ]; then
  cache=$HF_HUB_CACHE
elif [ -n "${HF_HOME:-}" ]; then
  cache=$HF_HOME/hub
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
  cache=$XDG_CACHE_HOME/huggingface/hub
elif [ -n "${HOME:-}" ]; then
  cache=$HOME/.cache/huggingface/hub
else
  die 2 "no HOME, HF_HOME or HF_HUB_CACHE says where to put models"
fi
[[ $cache == /* ]] || cache=$PWD/$cache
folder_name=models--${id/\//--}
folder=$cache/$folder_name
locks=$cache/.locks/$folder_name
work=$(mktemp -d) || die 1 "can't make a temporary folder"
trap 'rm -rf "$work"' EXIT

# ---- HTTP ----
# request CURL_ARGS...: becomes curl, with what all requests share; for subshells. The token comes through stdin, so that no
# list of processes shows it; curl doesn't pass it on to other hosts.
request() {
  local header=''
  [ -z "$token" ] || header="header = \"Authorization: Bearer $token\""
  exec curl --config - --silent --show-error --globoff --location --max-redirs 10 --proto '=http,https' --proto-redir "=https${insecure:+,http}" \
    --connect-timeout 20 --speed-limit 1 --speed-time 60 --user-agent llm "$@" <<<"$header"
}

# last_header FILE NAME: the header's value in the last response of a --dump-header file.
last_header() {
  awk -v name="$2:" '/^HTTP\// { value = "" }
    tolower($1) == name { $1 = ""; gsub(/^ +|\r/, ""); value = $0 } END { print value }' "$1"
}

# why_refused STATUS HEADERS: what an HTTP status means here.
why_refused() {
  local said
  said=$(last_header "$2" x-error-message | tr -cd ' -~' | cut -c 1-200)
  case $1 in
    401 | 403)
      if [ -n "$token" ]; then
        echo "$endpoint refuses $id (HTTP $1): HF_TOKEN may be wrong, or lack access; if the model" \
          "has terms, accept them at $endpoint/$id. ${said}"
      else
        echo "$endpoint refuses $id (HTTP $1): there is no such model, or it needs permission:" \
          "accept its terms at $endpoint/$id and put a token in HF_TOKEN. ${said}"
      fi
      ;;
    404) echo "$endpoint has no model $id (HTTP 404). ${said}" ;;
    429) echo "$endpoint says that there were too many requests (HTTP 429): try again later" ;;
    *) echo "$endpoint answered HTTP $1. ${said}" ;;
  esac
}

# why_curl CODE MESSAGE: what curl's exit code means here.
why_curl() {
  case $1 in
    5 | 6 | 7) echo "can't reach $endpoint: ${2:-no connection} (offline?)" ;;
    23) echo "can't write to $cache (is the disk full?)" ;;
    28) echo "no data for too long: $2" ;;
    47) echo "the redirects don't end: $2" ;;
    *) echo "the connection broke off: ${2:-curl error $1}" ;;
  esac
}

# pause TRY HEADERS: waits before another try, as long as the server asked for, up to 5 minutes.
pause() {
  local seconds=$((retry_delay << ($1 < 6 ? $1 : 6))) asked
  asked=$(last_header "$2" retry-after)
  if [[ $asked =~ ^[0-9]{1,6}$ ]] && [ "$asked" -gt "$seconds" ]; then seconds=$asked; fi
  sleep $((seconds < 300 ? seconds : 300))
}

passing_status() { [[ $1 = 408 || $1 = 429 || $1 = 5?? ]]; }

# ---- What the model consists of ----
# Flattens JSON on stdin to lines "path TAB value": .siblings[3].size TAB 726. Ends with 1 where the
# text isn't JSON. Escapes other than \" \\ \/ stay as they are: no name that we take has one.
flatten_json() {
  awk '
    function bad() { failed = 1; exit 1 }
    function blank() { if (match(text, /^[ \t\r\n]+/)) text = substr(text, RLENGTH + 1) }
    function string(  s) {
      if (!match(text, /^"([^"\\]|\\.)*"/)) bad()
      s = substr(text, 2, RLENGTH - 2); text = substr(text, RLENGTH + 1)
      gsub(/\\"/, "\"", s); gsub(/\\\//, "/", s); gsub(/\\\\/, "\\", s); gsub(/[\t\n]/, " ", s)
      return s
    }
    function list(path, first, last,  n, key) {
      text = substr(text, 2); blank()
      if (substr(text, 1, 1) == last) { text = substr(text, 2); return }
      for (n = 0; ; n++) {
        if (first == "{") {
          blank(); key = string(); blank()
          if (substr(text, 1, 1) != ":") bad()
          text = substr(text, 2); value(path "." key)
        } else value(path "[" n "]")
        blank()
        if (substr(text, 1, 1) == last) { text = substr(text, 2); return }
        if (substr(text, 1, 1) != ",") bad()
        text = substr(text, 2)
      }
    }
    function value(path,  c) {
      if (++depth > 100) bad()
      blank(); c = substr(text, 1, 1)
      if (c == "{") list(path, "{", "}")
      else if (c == "[") list(path, "[", "]")
      else if (c == "\"") print path "\t" string()
      else if (match(text, /^[-+.0-9A-Za-z]+/)) {
        print path "\t" substr(text, 1, RLENGTH); text = substr(text, RLENGTH + 1)
      } else bad()
      depth--
    }
    { all = all $0 "\n" }
    END { if (failed) exit 1; text = all; value(""); blank(); if (text != "") exit 1 }
  '
}

# ask_hub: the model's description into $work/info: one request, tried again where that may help.
ask_hub() {
  local try status code url="$endpoint/api/models/$id/revision/main?blobs=true"
  for ((try = 0; ; try++)); do
    # No model's description is as long as 4 MB. An answer that doesn't say its length meets ulimit.
    status=$(
      ulimit -f 4096
      request --max-time 120 --max-filesize 4194304 --dump-header "$work/headers" \
        --output "$work/info" --write-out '%{http_code}' "$url" 2>"$work/curl_error"
    )
    code=$?
    [ $code = 0 ] && [ "$status" = 200 ] && return
    if [ $code = 0 ] && ! passing_status "$status"; then
      die 1 "$(why_refused "$status" "$work/headers")"
    fi
    # An address that isn't there at all won't be there in a second.
    if [ $try -ge "$retries" ] || [[ $code = [567] ]]; then
      [ $code = 0 ] && die 1 "$(why_refused "$status" "$work/headers")"
      die 1 "$(why_curl $code "$(head -c 300 "$work/curl_error")")"
    fi
    local why="HTTP $status"
    [ $code = 0 ] || why=$(why_curl $code "$(head -c 300 "$work/curl_error")")
    say "$endpoint: $why; trying again"
    pause $try "$work/headers"
  done
}

# list_files: $work/files gets a line "name size hash" for each file that we want. The hash is the
# content's sha256 for files in the large-file store, else git's.
list_files() {
  flatten_json <"$work/info" >"$work/flat" ||
    die 1 "$endpoint doesn't answer as the hub does (not JSON): is HF_ENDPOINT right?"
  commit=$(awk -F '\t' '$1 == ".sha" { print $2 }' "$work/flat")
  [[ $commit =~ ^[0-9a-f]{40}$ ]] ||
    die 1 "$endpoint doesn't answer as the hub does (no commit): is HF_ENDPOINT right?"
  awk -F '\t' '
    $1 ~ /^\.siblings\[[0-9]+\]\./ {
      n = $1; sub(/^\.siblings\[/, "", n); sub(/\].*/, "", n); n += 0
      key = $1; sub(/^[^\]]*\]\./, "", key)
      field[n, key] = $2; if (n + 1 > count) count = n + 1
    }
    function wanted(name) {
      return name ~ /^(config|generation_config|quantize_config|special_tokens_map)\.json$/ ||
        name ~ /^(tokenizer|chat_template)[A-Za-z0-9._-]*$/ || name == "model.safetensors" ||
        name == "model.safetensors.index.json" || name ~ /^model-[0-9]+-of-[0-9]+\.safetensors$/
    }
    END {
      for (n = 0; n < count; n++) {
        name = field[n, "rfilename"]
        if (!wanted(name)) continue
        if ((n, "lfs.sha256") in field) print name, field[n, "lfs.size"], field[n, "lfs.sha256"]
        else print name, field[n, "size"], field[n, "blobId"]
      }
    }' "$work/flat" >"$work/files"
  local name size hash
  while read -r name size hash; do
    [[ $size =~ ^[0-9]{1,15}$ && $hash =~ ^([0-9a-f]{40}|[0-9a-f]{64})$ ]] ||
      die 1 "$endpoint gives no size and checksum for $name of $id"
  done <"$work/files"
  grep -q '^config\.json ' "$work/files" || die 2 "$id has no config.json: it is not a model for llm"
  grep -q '^model.*\.safetensors ' "$work/files" ||
    die 2 "$id has no model.safetensors; llm can't use weights in other formats (GGUF, .bin)"
  grep -q '^tokenizer\.json ' "$work/files" || say "note: $id has no tokenizer.json: only --token-ids"
}

# ---- One file ----
file_size() { stat -L -c %s "$1" 2>/dev/null || echo 0; }
# bytes_there SIZE HASH: how much of a blob is on the disk, complete or not.
bytes_there() {
  local blob=$folder/blobs/$2
  if [ -f "$blob" ]; then file_size "$blob"; else file_size "$blob.incomplete"; fi
}
is_complete() { [ -f "$folder/blobs/$2" ] && [ "$(file_size "$folder/blobs/$2")" = "$1" ]; }
has_hash() { # has_hash FILE SIZE HASH
  if [ ${#3} = 64 ]; then
    [ "$(sha256sum <"$1")" = "$3  -" ]
  else
    [ "$({ printf 'blob %s\0' "$2" && cat "$1"; } | sha1sum)" = "$3  -" ]
  fi
}

# as_child COMMAND...: runs it so that a signal to this process reaches it at once.
child=''
as_child() {
  "$@" &
  child=$!
  wait "$child"
}

# request_part NAME SIZE PART SCRATCH: asks for the bytes that PART lacks and adds them.
request_part() {
  local have offset=()
  have=$(file_size "$3")
  [ "$have" = 0 ] || offset=(--continue-at "$have")
  trap '' XFSZ # then writing past the limit is an error for curl, and not its end
  ulimit -f $(($2 / 1024 + 1))
  request --fail "${offset[@]}" --output "$3" --dump-header "$4.headers" --write-out '%{http_code}' \
    "$endpoint/$id/resolve/$commit/$1" >"$4.status" 2>"$4.error"
}

# fetch_once NAME SIZE PART SCRATCH: one try. Sets `problem`, empty if PART has its size now, and
# `again`, empty if no other try will do better.
fetch_once() {
  local code have status before
  problem='' again=1
  : >>"$3" || { problem="can't write to $cache" again='' && return; }
  [ "$(file_size "$3")" -gt "$2" ] && : >"$3"
  [ "$(file_size "$3")" = "$2" ] && return
  before=$(file_size "$3")
  : >"$4.headers"
  as_child request_part "$@"
  code=$?
  have=$(file_size "$3")
  status=$(cat "$4.status")
  if [ "$have" -gt "$2" ]; then
    problem="the server sends more than the $2 bytes that it announced"
    : >"$3"
  elif [ "$before" -gt 0 ] && { [ $code = 33 ] || [ "$status" = 416 ]; }; then
    # It doesn't give a part, or not this one: all of it then.
    : >"$3"
    fetch_once "$@"
  elif [ $code = 22 ]; then
    problem=$(why_refused "$status" "$4.headers")
    passing_status "$status" || again=''
  elif [ $code != 0 ]; then
    problem=$(why_curl $code "$(head -c 300 "$4.error")")
    [[ $code = 23 || $code = 47 || $code = 60 ]] && again=''
  elif [ "$have" != "$2" ]; then
    problem="the server sent $have of $2 bytes"
  fi
}

# lock_blob NAME HASH: huggingface_hub's own lock, held until this process ends.
lock_blob() {
  exec 9>>"$locks/$2.lock" || die 1 "can't write to $locks"
  flock -n 9 && return
  say "$1: another program is downloading it: waiting"
  as_child flock 9
}

# fetch_file NAME SIZE HASH: in a process of its own.
fetch_file() {
  local part=$folder/blobs/$3.incomplete scratch=$work/$3 try=0 wrong=0 before
  trap 'kill $child 2>/dev/null; exit 130' TERM
  trap - EXIT
  lock_blob "$1" "$3"
  until is_complete "$2" "$3"; do
    before=$(file_size "$part")
    fetch_once "$1" "$2" "$part" "$scratch"
    if [ -z "$problem" ] && as_child has_hash "$part" "$2" "$3"; then
      mv -f "$part" "$folder/blobs/$3" && continue
      die 1 "can't write to $cache"
    fi
    if [ -z "$problem" ]; then
      problem="wrong checksum: what came is not what $endpoint announced"
      : >"$part"
      [ $((++wrong)) -lt 2 ] || again=''
    fi
    [ "$(file_size "$part")" -gt "$before" ] && try=0
    if [ -z "$again" ] || [ $try -ge "$retries" ]; then die 1 "$1: $problem"; fi
    say "$clear$1: $problem; trying again"
    as_child pause $try "$scratch.headers"
    try=$((try + 1))
  done
}

# ---- All files ----
human() { # human BYTES
  awk -v n="$1" 'BEGIN { split("bytes kB MB GB TB", unit, " ")
    for (i = 1; n >= 999.5 && i < 5; i++) n /= 1000
    printf i == 1 ? "%d %s" : n < 9.995 ? "%.2f %s" : n < 99.95 ? "%.1f %s" : "%.0f %s", n, unit[i] }'
}

count_bytes() { # sets `all` and `there`
  local name size hash
  all=0 there=0
  while read -r name size hash; do
    all=$((all + size))
    there=$((there + $(bytes_there "$size" "$hash")))
  done <"$work/files"
}

show_progress() {
  [ -n "$clear" ] || return
  local now=${EPOCHREALTIME/[.,]/} rate left=''
  count_bytes
  rate=$(((there - there_at_start) * 1000000 / (now - started + 1)))
  [ $rate -gt 0 ] && left=$(((all - there) / rate)) &&
    left=$(printf ', %d:%02d left' $((left / 60)) $((left % 60)))
  printf '%s%d %%  %s of %s, %s/s%s' "$clear" $((all > 0 ? there * 100 / all : 100)) \
    "$(human $there)" "$(human $all)" "$(human $rate)" "$left" >&2
}

workers=()
stop_workers() {
  [ ${#workers[@]} = 0 ] || kill "${workers[@]}" 2>/dev/null
  wait
}
interrupted() {
  trap '' INT TERM HUP
  stop_workers
  say "${clear}interrupted; run it again to go on"
  exit 130
}

# reap: forgets the workers that have ended; the first that failed ends us.
reap() {
  local pid alive=()
  for pid in "${workers[@]}"; do
    if kill -0 "$pid" 2>/dev/null; then
      alive+=("$pid")
    elif ! wait "$pid"; then
      stop_workers
      say "${clear}what is there stays; run it again to go on"
      exit 1
    fi
  done
  workers=("${alive[@]}")
}

tick() {
  sleep "$1" &
  wait $!
  reap
  show_progress
}

fetch_all() {
  local name size hash
  while read -r name size hash; do
    is_complete "$size" "$hash" && continue
    while [ ${#workers[@]} -ge "$jobs" ]; do tick 0.1; done
    fetch_file "$name" "$size" "$hash" &
    workers+=($!)
  done <"$work/files"
  while [ ${#workers[@]} -gt 0 ]; do tick 0.1; done
  printf %s "$clear" >&2
}

check_space() {
  local parent=$cache free
  until [ -d "$parent" ]; do parent=$(dirname "$parent"); done
  free=$(df -Pk "$parent" | awk 'NR == 2 { printf "%.0f", $4 * 1024 }')
  [ "${free:-0}" -ge $((all - there)) ] ||
    die 2 "$id needs $(human $((all - there))) more, but $parent has $(human "${free:-0}") free"
}

# publish: everything is here and checked, so now it gets its names; the one by which llm finds the
# model comes last.
publish() {
  local snapshot=$folder/snapshots/$commit name size hash
  mkdir -p "$snapshot" "$folder/refs" || die 1 "can't write to $cache"
  while read -r name size hash; do
    ln -sfnT "../../blobs/$hash" "$snapshot/$name" || die 1 "can't write to $cache"
  done < <(grep -v '^config\.json ' "$work/files" && grep '^config\.json ' "$work/files")
  { printf %s "$commit" >"$folder/refs/main.$$" && mv -f "$folder/refs/main.$$" "$folder/refs/main"; } ||
    die 1 "can't write to $cache"
}

trap interrupted INT TERM HUP
clear=''
[ -t 2 ] && clear=$'\r\e[K'
ask_hub
list_files
count_bytes
if [ -n "$dry_run" ]; then
  while read -r name size hash; do
    printf '%15d %15d  %s\n' "$size" $((size - $(bytes_there "$size" "$hash"))) "$name"
  done <"$work/files"
  printf '%15d %15d  all (bytes, and of these missing)\n' "$all" $((all - there))
  exit 0
fi
check_space
mkdir -p "$folder/blobs" "$locks" || die 1 "can't write to $cache"
say "$id: $(wc -l <"$work/files") files, $(human "$all")$(
  [ "$there" = 0 ] || echo ", of which $(human "$there") are here"), into $folder"
started=${EPOCHREALTIME/[.,]/} there_at_start=$there
fetch_all
publish
say "$id is complete: llm run -m $model"
printf '%s\n' "$folder/snapshots/$commit"
