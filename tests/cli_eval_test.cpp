// `llm eval`: perplexity and KL against sums made of `run --logits-out`, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "io/npy.h"
#include "refusal.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using Json = nlohmann::ordered_json;
using Row = std::vector<double>;

constexpr const char* kTokenizer = "models/tiny/tokenizer.json";
constexpr const char* kEvalText = "scripts/tiny/data/eval.txt";

/// The first bytes of the held-out text, in a file.
std::string text_file(const fs::path& dir, size_t bytes) {
  const std::string path = (dir / "text.txt").string();
  write_text(path, file_text(kEvalText).substr(0, bytes));
  return path;
}

std::string output(Args args, const Args& more = {}, const std::string& input = "") {
  args.insert(args.end(), more.begin(), more.end());
  const LlmResult r = run_llm(args, input);
  REQUIRE_MESSAGE(r.exit_code == 0, r.err);
  return r.out;
}

Json eval(const Args& more) { return Json::parse(output({"eval", "--json", "-q"}, more)); }

std::vector<int32_t> ids_of(const std::string& path) {
  return Json::parse(output({"tokenize", "-m", "tiny", "-f", path, "--json"}))["ids"]
      .get<std::vector<int32_t>>();
}

/// log-softmax of every position of a model's input, by `run --logits-out`.
std::vector<Row> log_softmax_of(const std::string& model, const std::vector<int32_t>& ids) {
  const std::string path = (fresh_test_dir("eval-logits") / "logits.npy").string();
  output({"run", "-q", "-m", model, "-n", "0", "--logits-out", path, "--token-ids",
          fmt::format("{}", fmt::join(ids, " "))});
  const NpyMatrix matrix = read_npy(path);
  const auto width = static_cast<size_t>(matrix.cols);
  std::vector<Row> rows;
  for (size_t i = 0; i < static_cast<size_t>(matrix.rows); ++i) {
    const float* row = matrix.values.data() + i * width;
    const double largest = *std::max_element(row, row + width);
    double sum = 0;
    for (size_t j = 0; j < width; ++j) sum += std::exp(row[j] - largest);
    rows.emplace_back();
    for (size_t j = 0; j < width; ++j) rows.back().push_back(row[j] - largest - std::log(sum));
  }
  return rows;
}

/// What each scored token is predicted with, token by token: its first window begins at the least
/// multiple of stride that leaves it within ctx tokens, and it isn't the first in there.
std::map<size_t, Row> predictions(const std::string& model, const std::vector<int32_t>& ids,
                                  size_t ctx, size_t stride) {
  std::map<size_t, std::vector<Row>> windows;  // by begin
  std::map<size_t, Row> of_token;
  for (size_t token = 1; token < ids.size(); ++token) {
    size_t begin = 0;
    while (begin + ctx <= token) begin += stride;
    if (begin == token) continue;
    if (windows.count(begin) == 0) {
      const size_t end = std::min(begin + ctx, ids.size());
      windows[begin] = log_softmax_of(model, {ids.begin() + static_cast<ptrdiff_t>(begin),
                                              ids.begin() + static_cast<ptrdiff_t>(end)});
    }
    of_token[token] = windows[begin][token - 1 - begin];
  }
  return of_token;
}

TEST_CASE("eval: perplexity is that of the logits of each window, for many windows and strides") {
  const std::string text = text_file(fresh_test_dir("eval"), 1200);
  const std::vector<int32_t> ids = ids_of(text);
  REQUIRE(ids.size() > 200);
  struct Case {
    size_t ctx, stride;
  };
  for (const Case& windows : {Case{4096, 1}, Case{ids.size(), 7}, Case{ids.size() - 1, 100},
                              Case{64, 32}, Case{50, 50}, Case{100, 41}}) {
    const size_t ctx = windows.ctx, stride = windows.stride;
    CAPTURE(ctx);
    CAPTURE(stride);
    double sum = 0, squares = 0;
    const std::map<size_t, Row> expected = predictions("tiny", ids, ctx, stride);
    for (const auto& [token, row] : expected) {
      const double nll = -row[static_cast<size_t>(ids[token])];
      sum += nll;
      squares += nll * nll;
    }
    const auto n = static_cast<double>(expected.size());
    const double mean = sum / n;
    const double variance = (squares - n * mean * mean) / (n - 1);
    const Json result =
        eval({"--text", text, "--ctx", std::to_string(ctx), "--stride", std::to_string(stride)});
    CHECK(result["tokens"] == expected.size());
    CHECK(result["nll"].get<double>() == doctest::Approx(mean).epsilon(1e-12));
    CHECK(result["ppl"].get<double>() == doctest::Approx(std::exp(mean)).epsilon(1e-12));
    CHECK(result["ppl_se"].get<double>() ==
          doctest::Approx(std::exp(mean) * std::sqrt(variance / n)).epsilon(1e-9));
    for (const char* unknown : {"kl_mean", "kl_p99", "top1", "baseline"}) {
      CHECK(result[unknown].is_null());
    }
    CHECK(result["run"]["kv_dtype"] == "bf16");
    CHECK(result["run"].contains("version"));
  }
}

TEST_CASE("eval: KL and top-1 against a baseline are those of both models' logits") {
  const std::string text = text_file(fresh_test_dir("eval-kl"), 900);
  const std::vector<int32_t> ids = ids_of(text);
  const auto model = predictions("tiny-draft", ids, 80, 40);
  const auto baseline = predictions("tiny", ids, 80, 40);
  std::vector<double> kl;
  int64_t same = 0;
  for (const auto& [token, q] : model) {
    const Row& p = baseline.at(token);
    double sum = 0;
    for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
    kl.push_back(sum);
    same += std::max_element(p.begin(), p.end()) - p.begin() ==
            std::max_element(q.begin(), q.end()) - q.begin();
  }
  const auto n = static_cast<double>(kl.size());
  double mean = 0;
  for (const double x : kl) mean += x / n;
  std::sort(kl.begin(), kl.end());
  const Args args = {"-m", "tiny-draft", "--baseline", "tiny",     "--text",
                     text, "--ctx",      "80",         "--stride", "40"};
  const Json result = eval(args);
  CHECK(result["tokens"] == kl.size());
  CHECK(result["kl_mean"].get<double>() == doctest::Approx(mean).epsilon(1e-9));
  CHECK(result["kl_p99"].get<double>() ==
        doctest::Approx(kl[static_cast<size_t>(std::ceil(0.99 * n)) - 1]).epsilon(1e-9));
  CHECK(result["top1"].get<double>() == static_cast<double>(same) / n);
  CHECK(result["baseline"] == "tiny");
  CHECK(same > 0);
  CHECK(same < std::ssize(kl));

  // Neither what is computed beside a window nor the number of threads changes a bit.
  const std::string alone = result.dump();
  for (const Args& more : {Args{"--max-num-seqs", "1"}, Args{"--max-num-seqs", "3"},
                           Args{"--max-num-seqs", "50", "-t", "3"}}) {
    Args with = args;
    with.insert(with.end(), more.begin(), more.end());
    CHECK(eval(with).dump() == alone);
  }
}

TEST_CASE("eval: a model is no distance from itself, and another cache type is a small one") {
  const std::string text = text_file(fresh_test_dir("eval-self"), 2000);
  const Json self = eval({"-m", "tiny", "--baseline", "tiny", "--text", text, "--ctx", "128"});
  CHECK(self["kl_mean"] == 0.0);
  CHECK(self["kl_p99"] == 0.0);
  CHECK(self["top1"] == 1.0);
  CHECK(self["nll"] == eval({"--text", text, "--ctx", "128"})["nll"]);

  // Flags are for the model alone.
  const Json f32 = eval(
      {"--baseline", "tiny", "--kv-dtype", "f32", "--act", "f32", "--text", text, "--ctx", "128"});
  CHECK(f32["run"]["kv_dtype"] == "f32");
  CHECK(f32["kl_mean"].get<double>() > 0);
  CHECK(f32["kl_mean"].get<double>() < 0.01);
  CHECK(f32["nll"] != self["nll"]);
}

TEST_CASE("eval: padding of an embedding is no part of the comparison") {
  const fs::path dir = fresh_test_dir("eval-padding");
  // A value depends on its tensor's name and its place, so both have the same rows for the tokens.
  const auto fill = [](const std::string& name, std::span<float> values, int64_t) {
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(name)));
    std::normal_distribution<float> normal;
    for (float& x : values) x = 0.1f * normal(random);
  };
  const auto model = [&](const char* name, int64_t vocab_size) {
    FolderOptions folder;
    folder.tokenizer_json = fs::absolute(kTokenizer);
    write_checkpoint(dir / name, random2_config({.vocab_size = vocab_size}), fill, folder);
    return (dir / name).string();
  };
  const std::string narrow = model("narrow", 3712), wide = model("wide", 3840);
  const std::string text = text_file(dir, 600);
  for (const auto& [a, b] : {std::pair(narrow, wide), std::pair(wide, narrow)}) {
    const Json result = eval({"-m", a, "--baseline", b, "--text", text});
    CHECK(result["kl_mean"] == 0.0);
    CHECK(result["top1"] == 1.0);
  }
}

TEST_CASE("eval: SmolLM2-135M's reference NLL of prose") {
  LLM_SKIP_WITHOUT_DATA("SmolLM2 reference NLL");
  LLM_SKIP_WITHOUT_SMOLLM2("SmolLM2 perplexity");
  const Json golden = Json::parse(file_text(shared_data() / "goldens" / "smollm2.json"));
  const std::string text = (fresh_test_dir("eval-smollm2") / "text.txt").string();
  write_text(text, golden["text"].get<std::string>());
  const Json result = eval({"-m", smollm2_dir().string(), "--act", "f32", "--text", text});
  CHECK(result["tokens"] == golden["ids"].size() - 1);
  CHECK(result["nll"].get<double>() ==
        doctest::Approx(golden["mean_nll"].get<double>()).epsilon(1e-4));
}

TEST_CASE("eval: a table for people; stdin; one warning for what isn't UTF-8") {
  const fs::path dir = fresh_test_dir("eval-table");
  const std::string text = text_file(dir, 900);
  const std::string from_file = output({"eval", "--text", text, "--baseline", "tiny-draft"});
  CHECK(from_file.find("perplexity      ") != std::string::npos);
  CHECK(from_file.find(" +/- ") != std::string::npos);
  CHECK(from_file.find("KL              mean ") != std::string::npos);
  CHECK(from_file.find("top-1           the same for ") != std::string::npos);
  CHECK(output({"eval", "--text", "-", "--baseline", "tiny-draft"}, {}, file_text(text)) ==
        from_file);
  const LlmResult broken = run_llm({"eval", "--text", "-", "--json"}, "Once there was\xff a fox");
  CHECK(broken.exit_code == 0);
  CHECK(broken.err.find("the text is not valid UTF-8") != std::string::npos);
  CHECK(Json::parse(broken.out)["tokens"] > 3);
}

TEST_CASE("eval: a text of two tokens has a perplexity without error") {
  const std::vector<int32_t> ids =
      Json::parse(output({"tokenize", "-m", "tiny", "--json", "a b"}))["ids"]
          .get<std::vector<int32_t>>();
  REQUIRE(ids.size() == 2);
  const LlmResult r = run_llm({"eval", "--text", "-", "--json", "-q"}, "a b");
  REQUIRE(r.exit_code == 0);
  const Json result = Json::parse(r.out);
  CHECK(result["tokens"] == 1);
  CHECK(result["ppl_se"].is_null());
  CHECK(result["nll"].get<double>() ==
        doctest::Approx(-log_softmax_of("tiny", ids)[0][static_cast<size_t>(ids[1])]));
}

TEST_CASE("eval: the last newline is part of the text") {
  const std::string path = (fresh_test_dir("eval-newline") / "text.txt").string();
  write_text(path, "Once there was a fox\n");
  const size_t scored = ids_of(path).size() - 1;
  CHECK(eval({"--text", path})["tokens"] == scored);
  CHECK(Json::parse(output({"eval", "--json", "--text", "-"}, {}, file_text(path)))["tokens"] ==
        scored);
}

TEST_CASE("eval: what can't be evaluated is refused before any work") {
  const fs::path dir = fresh_test_dir("eval-refused");
  const std::string text = text_file(dir, 300), empty = (dir / "empty.txt").string();
  write_text(empty, "");
  const auto refused = [](const Args& args, const char* message, const std::string& input = "") {
    Args all = {"eval", "-q"};
    all.insert(all.end(), args.begin(), args.end());
    const LlmResult r = run_llm(all, input);
    CHECK(r.exit_code == 2);
    CHECK(r.out.empty());
    check_contains(r.err, message);
  };
  refused({}, "--text FILE");
  refused({"--text", ""}, "--text");
  refused({"--text", empty}, "is empty");
  refused({"--text", "-"}, "is empty");
  refused({"--text", "-"}, "1 token", "a");
  refused({"--text", (dir / "none").string()}, "No such file");
  refused({"--text", dir.string()}, "folder");
  refused({"--text", text, "--ctx", "1"}, "2 tokens or more");
  refused({"--text", text, "--stride", "0"}, "--stride");
  refused({"--text", text, "--ctx", "64", "--stride", "65"}, "more than --ctx 64");
  refused({"--text", text, "--stride", "100000"}, "more than the window");
  refused({"--text", text, "--ctx", "1000000"}, "more than the maximum of tiny");
  refused({"--text", text, "--device", "shape"}, "computes nothing");
  refused({"--text", text, "--baseline", "/no/such/model"}, "/no/such/model");

  Random2Options options{.vocab_size = 3712, .seed = 1};
  write_random2(dir / "silent", options);  // no tokenizer
  refused({"--text", text, "-m", (dir / "silent").string()}, "tokenizer");
  refused({"--text", text, "--baseline", (dir / "silent").string()}, "no tokenizer to compare");
  Json tokenizer = Json::parse(file_text(kTokenizer));
  std::swap(tokenizer["model"]["vocab"]["e"], tokenizer["model"]["vocab"]["f"]);
  write_text(dir / "swapped.json", tokenizer.dump());
  options.folder.tokenizer_json = fs::absolute(dir / "swapped.json");
  write_random2(dir / "other", options);
  refused({"--text", text, "--baseline", (dir / "other").string()}, "its tokenizer is another: id");
}

TEST_CASE("eval: logits that aren't numbers end it, with the token's place") {
  const fs::path dir = fresh_test_dir("eval-nan");
  const std::string text = text_file(dir, 300);
  const int32_t poisoned = ids_of(text).at(5);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const ModelConfig config = random2_config({.vocab_size = 3712});
  FolderOptions folder;
  folder.tokenizer_json = fs::absolute(kTokenizer);
  write_checkpoint(
      dir / "model", config,
      [&](const std::string& name, std::span<float> values, int64_t cols) {
        for (float& x : values) x = 0.1f * normal(random);
        if (name == "model.embed_tokens.weight") values[static_cast<size_t>(poisoned * cols)] = NAN;
      },
      folder);
  const LlmResult r = run_llm({"eval", "-q", "-m", (dir / "model").string(), "--text", text});
  CHECK(r.exit_code == 1);
  CHECK(r.out.empty());
  check_contains(r.err, "the prediction of token ");
  check_contains(r.err, "is not a number");
}

}  // namespace
}  // namespace llm
