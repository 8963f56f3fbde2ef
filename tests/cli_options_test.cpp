// Numbers on the command line, sampling defaults, and escapes in a prompt.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cli/options.h"
#include "cli/prompt_input.h"
#include "cli/run_options.h"

namespace llm {
namespace {

GenerationConfig qwen3_defaults() {
  GenerationConfig config;
  config.do_sample = true;
  config.temperature = 0.6f;
  config.top_k = 20;
  config.top_p = 0.95f;
  return config;
}

TEST_CASE("parse_integer takes whole decimal numbers only") {
  CHECK(parse_integer("42") == 42);
  CHECK(parse_integer("-1") == -1);
  CHECK(parse_integer("010") == 10);  // no octal
  for (const char* text : {"", " 1", "1 ", "1.0", "0x10", "1e3", "abc", "9223372036854775808"}) {
    CHECK_FALSE(parse_integer(text).has_value());
  }
}

TEST_CASE("parse_number takes finite decimal numbers only") {
  CHECK(parse_number("0.5") == 0.5);
  CHECK(parse_number("1e-3") == 1e-3);
  for (const char* text : {"", "nan", "inf", "-inf", "0.5 ", "0.5x", "0x1p3", "1e999"}) {
    CHECK_FALSE(parse_number(text).has_value());
  }
}

TEST_CASE("sampling: generation_config.json first, flags over it") {
  const SamplingParams file = resolve_sampling({}, qwen3_defaults(), 5);
  CHECK(file.temperature == 0.6f);
  CHECK(file.top_k == 20);
  CHECK(file.top_p == 0.95f);
  CHECK(file.seed == 5);
  SamplingOptions flags;
  flags.temperature = 0.1;
  flags.top_k = 0;
  const SamplingParams mixed = resolve_sampling(flags, qwen3_defaults(), 5);
  CHECK(mixed.temperature == 0.1f);
  CHECK(mixed.top_k == 0);
  CHECK(mixed.top_p == 0.95f);
}

TEST_CASE("sampling: greedy without do_sample, unless a flag asks for a draw") {
  GenerationConfig no_sampling = qwen3_defaults();
  no_sampling.do_sample = false;
  CHECK(resolve_sampling({}, {}, 0).temperature == 0);
  CHECK(resolve_sampling({}, no_sampling, 0).temperature == 0);
  SamplingOptions flags;
  flags.top_p = 0.9;
  CHECK(resolve_sampling(flags, {}, 0).temperature == 1);
  SamplingOptions penalty;
  penalty.repetition_penalty = 1.3;
  CHECK(resolve_sampling(penalty, {}, 0).temperature == 0);
  CHECK(resolve_sampling(penalty, {}, 0).repetition_penalty == 1.3f);
}

TEST_CASE("sampling: --greedy wins over the file and contradicts --temp > 0") {
  SamplingOptions flags;
  flags.greedy = true;
  CHECK(resolve_sampling(flags, qwen3_defaults(), 0).temperature == 0);
  flags.temperature = 0;
  CHECK_NOTHROW(resolve_sampling(flags, qwen3_defaults(), 0));
  flags.temperature = 0.5;
  CHECK_THROWS_AS(resolve_sampling(flags, qwen3_defaults(), 0), Error);
}

TEST_CASE("unescape: the usual escapes, and nothing else") {
  CHECK(unescape("a\\nb\\tc\\\\d\\\"e") == "a\nb\tc\\d\"e");
  CHECK(unescape("\\x41\\u00e9\\u4e2d") == "A\xc3\xa9\xe4\xb8\xad");
  CHECK(unescape("\\q\\x4\\uD800\\") == "\\q\\x4\\uD800\\");
  CHECK(unescape("\\\\n") == "\\n");
}

TEST_CASE("parse_token_ids: blanks and commas between whole numbers") {
  CHECK(parse_token_ids(" 1, 2\n3 ") == std::vector<int32_t>{1, 2, 3});
  for (const char* text : {"", " ", "1 x", "-1", "1.5", "99999999999"}) {
    CHECK_THROWS_AS(parse_token_ids(text), Error);
  }
}

}  // namespace
}  // namespace llm
