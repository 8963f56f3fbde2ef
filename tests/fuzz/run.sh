#!/usr/bin/env bash
# Runs the fuzz targets one after the other and names what they find. `make fuzz` calls it.
# usage: BUILD=dir FUZZ_SECONDS=60 tests/fuzz/run.sh [TARGET...], or run.sh --check
# Corpora grow under $BUILD/corpus; inputs that break something lie under $BUILD/findings.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

# --check: is the compiler's fuzzer there?
if [ "${1-}" = --check ]; then
  main='extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'
  echo "$main" | clang++ -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null && exit
  echo "fuzz: clang++ with its fuzzer is needed (Debian packages clang and libclang-rt-14-dev;" \
    "elsewhere compiler-rt of the same version)" >&2
  exit 1
fi

build=${BUILD:-build/fuzz}
seconds=${FUZZ_SECONDS:-60}
names=("$@")
if [ ${#names[@]} = 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do names+=("$(basename "$source" _fuzz.cpp)"); done
fi
tests/fuzz/seeds.sh "$build/corpus" || exit 1

status=0
for name in "${names[@]}"; do
  findings=$build/findings/$name
  mkdir -p "$findings"
  options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=3072 -max_len=8192
    -print_final_stats=1 -artifact_prefix="$findings/")
  dictionary=tests/fuzz/dictionaries/$name.dict
  [ -e "$dictionary" ] && options+=(-dict="$dictionary")
  if log=$("$build/tests/fuzz/${name}_fuzz" "${options[@]}" "$build/corpus/$name" 2>&1); then
    echo "fuzz $name: ok, $(sed -n 's/^stat::number_of_executed_units: *//p' <<<"$log") inputs in $seconds s"
  else
    status=1
    echo "$log" | tail -40
    echo "fuzz $name: FAILED. Try it again: $build/tests/fuzz/${name}_fuzz" \
      "$(sed -n 's/.*Test unit written to //p' <<<"$log" | tail -1)"
  fi
done
exit $status
