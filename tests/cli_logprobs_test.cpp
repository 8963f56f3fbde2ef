// `llm run --logprobs`: what every way to run a request must agree on.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "io/npy.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;
using Json = nlohmann::ordered_json;

std::string output(Args args, const Args& more, const std::string& input = "") {
  args.insert(args.end(), more.begin(), more.end());
  const LlmResult r = run_llm(args, input);
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  return r.out;
}

/// The bytes from "logprobs" to the next key, for each line.
std::vector<std::string> logprob_texts(const std::string& lines) {
  std::vector<std::string> texts;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const size_t begin = line.find("\"logprobs\":"), end = line.find(",\"run\":");
    REQUIRE(begin != std::string::npos);
    texts.push_back(line.substr(begin, end - begin));
  }
  return texts;
}

/// log-softmax of one row in double.
std::vector<double> log_softmax(const float* row, size_t width) {
  const double largest = *std::max_element(row, row + width);
  double sum = 0;
  for (size_t i = 0; i < width; ++i) sum += std::exp(row[i] - largest);
  std::vector<double> result;
  for (size_t i = 0; i < width; ++i) result.push_back(row[i] - largest - std::log(sum));
  return result;
}

TEST_CASE("run --logprobs: the log-softmax of what --logits-out gives for the same ids") {
  const std::string logits = (fresh_test_dir("logprobs") / "logits.npy").string();
  for (const Args& sampling : {Args{"--greedy"}, Args{"--temp", "1.3", "--repetition-penalty",
                                                      "1.4", "--frequency-penalty", "0.5"}}) {
    const Json answer =
        Json::parse(output({"run", "-q", "--json", "--seed", "3", "--print-ids", "--logprobs", "4",
                            "-n", "40", "--think", "off", "Tell me a short story about a fox."},
                           sampling));
    const auto prompt = answer["prompt_ids"].get<std::vector<int32_t>>();
    const auto ids = answer["ids"].get<std::vector<int32_t>>();
    REQUIRE(ids.size() > 20);
    REQUIRE(answer["logprobs"].size() == ids.size());
    output(
        {"run", "-q", "-n", "0", "--token-ids",
         fmt::format("{} {}", fmt::join(prompt, " "), fmt::join(ids, " ")), "--logits-out", logits},
        {});
    const NpyMatrix matrix = read_npy(logits);
    const auto width = static_cast<size_t>(matrix.cols);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto expected =
          log_softmax(matrix.values.data() + (prompt.size() + i - 1) * width, width);
      const Json& entry = answer["logprobs"][i];
      const auto check = [&](const Json& token) {
        CHECK(std::abs(token["logprob"].get<double>() - expected[token["id"].get<size_t>()]) <
              1e-12);
      };
      CHECK(entry["id"] == ids[i]);
      check(entry);
      REQUIRE(entry["top"].size() == 4);
      std::vector<double> sorted = expected;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (size_t k = 0; k < 4; ++k) {
        check(entry["top"][k]);
        CHECK(std::abs(entry["top"][k]["logprob"].get<double>() - sorted[k]) < 1e-12);
      }
      if (sampling[0] == "--greedy") CHECK(entry["top"][0]["id"] == ids[i]);
    }
  }
}

TEST_CASE("run --logprobs: the same bytes with a draft, by look-up, and on one thread") {
  for (const char* temperature : {"0", "0.8"}) {
    const Args args = {
        "run",    "-q",   "--json",  "--seed", "5",          "--temp", temperature,
        "--stop", " fox", "--think", "off",    "--logprobs", "3",      "Tell me a story of a fox."};
    const auto plain = logprob_texts(output(args, {}));
    CHECK(Json::parse("{" + plain.at(0) + "}")["logprobs"].size() > 3);
    for (const Args& more :
         {Args{"--draft", "tiny-draft"}, Args{"--draft", "tiny", "--spec-k", "8"},
          Args{"--draft", "ngram"}, Args{"-t", "1"}}) {
      CAPTURE(more[1]);
      CHECK(logprob_texts(output(args, more)) == plain);
    }
  }
}

TEST_CASE("run --jsonl --logprobs: the same bytes for one at a time, many, and preempted") {
  std::string requests;
  for (int i = 0; i < 24; ++i) {
    requests += fmt::format(
        R"({{"prompt":"What is {} + 5? Count to {}.","think":"{}","temperature":{},"max_tokens":60}})"
        "\n",
        i, i + 10, i % 3 == 0 ? "on" : "off", i % 2);
  }
  const Args args = {"run", "--jsonl", "-", "-q", "--seed", "2", "--logprobs", "2"};
  const auto alone = logprob_texts(output(args, {"--max-num-seqs", "1"}, requests));
  CHECK(alone.size() == 24);
  CHECK(logprob_texts(output(args, {"--max-num-seqs", "16"}, requests)) == alone);
  CHECK(logprob_texts(output(args, {"--kv-blocks", "14", "--ctx", "200"}, requests)) == alone);
  CHECK(logprob_texts(output(args, {"--draft", "tiny-draft", "--no-prefix-cache"}, requests)) ==
        alone);
}

TEST_CASE("run --logprobs: one entry for each id, also where a thought is cut short") {
  const Json answer =
      Json::parse(output({"run", "-q", "--json", "--greedy", "--logprobs", "1"},
                         {"--think", "on", "--think-budget", "8", "What is 47 + 38?"}));
  REQUIRE(answer["logprobs"].size() == answer["ids"].size());
  size_t forced = 0;  // not what the model would have said
  for (size_t i = 0; i < answer["ids"].size(); ++i) {
    const Json& entry = answer["logprobs"][i];
    CHECK(entry["id"] == answer["ids"][i]);
    CHECK(entry["top"].size() == 1);
    if (entry["top"][0]["id"] == entry["id"]) {
      CHECK(entry["top"][0]["logprob"] == entry["logprob"]);
    } else {
      CHECK(entry["logprob"].get<double>() < entry["top"][0]["logprob"].get<double>());
      ++forced;
    }
  }
  CHECK(forced >= 1);
  CHECK(forced <= 2);
}

TEST_CASE("run --logprobs 0 has the chosen ids alone; without the flag there is no such key") {
  const Args args = {"run", "-q", "--json", "--greedy", "--raw", "-n", "3", "Once there was"};
  const Json chosen = Json::parse(output(args, {"--logprobs", "0"}));
  CHECK(chosen["logprobs"].size() == 3);
  for (const Json& entry : chosen["logprobs"]) CHECK(entry["top"] == Json::array());
  CHECK_FALSE(Json::parse(output(args, {})).contains("logprobs"));
}

TEST_CASE("run --logprobs without --json: the answer on stdout, a table on stderr") {
  const Args args = {"run", "-q", "--greedy", "--raw", "-n", "3", "Once there was"};
  const LlmResult plain = run_llm(args);
  Args more = args;
  more.insert(more.end(), {"--logprobs", "2"});
  const LlmResult r = run_llm(more);
  CHECK(r.exit_code == 0);
  CHECK(r.out == plain.out);
  CHECK(plain.err.empty());
  std::istringstream table(r.err);
  std::vector<std::string> lines;
  for (std::string line; std::getline(table, line);) lines.push_back(line);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].find("logprob  piece") != std::string::npos);
  CHECK(lines[0].find("most probable") != std::string::npos);
  CHECK_MESSAGE(lines[1].find("\u2423a") != std::string::npos, lines[1]);
}

TEST_CASE("run --logprobs: what isn't accepted") {
  for (const char* bad : {"-1", "21", "x", ""}) {
    const LlmResult r = run_llm({"run", "--raw", "x", "--logprobs", bad});
    CHECK(r.exit_code == 2);
    CHECK_MESSAGE(r.err.find("from 0 to 20") != std::string::npos, r.err);
  }
  const LlmResult shape =
      run_llm({"run", "--raw", "x", "--logprobs", "1", "--device", "shape", "--trace-shapes"});
  CHECK(shape.exit_code == 2);
  const LlmResult key = run_llm({"run", "--jsonl", "-"}, R"({"prompt":"x","logprobs":2})");
  CHECK(key.exit_code == 1);
  CHECK(key.out.find(R"(unknown key \"logprobs\")") != std::string::npos);
}

}  // namespace
}  // namespace llm
