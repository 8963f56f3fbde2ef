// `llm run --draft`: the ids of plain decoding, and drafts that don't go with the model.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using Json = nlohmann::ordered_json;

constexpr const char* kTokenizer = "models/tiny/tokenizer.json";

/// RANDOM2 over the built-in tokenizer.
std::string random_model(const fs::path& dir, int64_t vocab_size, uint64_t seed,
                         const fs::path& tokenizer = fs::absolute(kTokenizer)) {
  Random2Options options{.vocab_size = vocab_size, .seed = seed};
  options.folder.tokenizer_json = tokenizer;
  write_random2(dir, options);
  return dir.string();
}

JsonValue answer(const std::string& model, const Args& more) {
  Args args = {"run",    "-m", model, "--json",         "--raw",
               "--seed", "1",  "-q",  "Once there was", "--max-tokens",
               "200"};
  args.insert(args.end(), more.begin(), more.end());
  const LlmResult r = run_llm(args);
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  return parse_json(r.out, "answer");
}

std::vector<int64_t> ids_of(const JsonValue& answer) {
  std::vector<int64_t> ids;
  for (const JsonValue& id : answer.find("ids")->array) ids.push_back(id.integer);
  return ids;
}

TEST_CASE("P1: another random model as draft changes no id, for any number of guesses") {
  const fs::path dir = fresh_test_dir("speculation-p1");
  const std::string target = random_model(dir / "target", 3712, 1);
  const std::string draft = random_model(dir / "draft", 3712, 2);
  for (const char* temperature : {"0", "0.9"}) {
    const auto plain = ids_of(answer(target, {"--temp", temperature}));
    CHECK(plain.size() == 200);
    for (int k = 1; k <= 8; ++k) {
      CAPTURE(k);
      const Args more = {"--temp", temperature, "--spec-k", std::to_string(k), "--draft"};
      for (const std::string& how : {draft, target, std::string("ngram")}) {
        CAPTURE(how);
        Args args = more;
        args.push_back(how);
        CHECK(ids_of(answer(target, args)) == plain);
      }
    }
  }
}

TEST_CASE("P5: embeddings may be padded differently, tokenizers may not differ") {
  const fs::path dir = fresh_test_dir("speculation-p5");
  const std::string target = random_model(dir / "target", 3712, 1);
  const std::string wider = random_model(dir / "wider", 3840, 1);
  CHECK(ids_of(answer(target, {"--temp", "0", "--draft", wider})) ==
        ids_of(answer(target, {"--temp", "0"})));
  CHECK(ids_of(answer(wider, {"--temp", "0", "--draft", target})) ==
        ids_of(answer(wider, {"--temp", "0"})));

  Json tokenizer = Json::parse(file_text(kTokenizer));
  std::swap(tokenizer["model"]["vocab"]["e"], tokenizer["model"]["vocab"]["f"]);
  const fs::path swapped = dir / "swapped.json";
  write_text(swapped, tokenizer.dump());
  const std::string other = random_model(dir / "other", 3712, 1, swapped);
  const LlmResult r = run_llm({"run", "-m", target, "--raw", "-q", "x", "--draft", other});
  CHECK(r.exit_code == 2);
  CHECK(r.out.empty());
  CHECK_MESSAGE(r.err.find("its tokenizer is another: id") != std::string::npos, r.err);
  CHECK_MESSAGE(r.err.find("\"f\" there, but \"e\"") != std::string::npos, r.err);
}

TEST_CASE("a stop string inside a block of right guesses cuts ids and text as without") {
  const Args prompt = {"--stop", " was a fox", "--temp", "0"};
  const auto tell = [&](const Args& more) {
    Args args = {"run", "-q", "--json", "--think", "off", "Tell me a short story about a fox."};
    args.insert(args.end(), prompt.begin(), prompt.end());
    args.insert(args.end(), more.begin(), more.end());
    const LlmResult r = run_llm(args);
    REQUIRE_MESSAGE(r.exit_code == 0, r.err);
    return parse_json(r.out, "answer");
  };
  const JsonValue plain = tell({});
  CHECK(plain.find("finish_reason")->string == "stop");
  for (const char* draft : {"tiny", "tiny-draft", "ngram"}) {
    const JsonValue drafted = tell({"--draft", draft});
    CHECK(ids_of(drafted) == ids_of(plain));
    CHECK(drafted.find("content")->string == plain.find("content")->string);
    CHECK(drafted.find("finish_reason")->string == "stop");
    CHECK(drafted.find("usage")->find("completion_tokens")->integer ==
          plain.find("usage")->find("completion_tokens")->integer);
  }
}

}  // namespace
}  // namespace llm
