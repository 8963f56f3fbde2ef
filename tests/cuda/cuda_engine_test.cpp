// The engine on the CUDA backend: the CPU's tokens, and the same bits in any company.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuda_test.h"
#include "tiny_model.h"

namespace llm {
namespace {

// Logits this close may change places: 1 % of the range of this model's, which is 32.
constexpr double kLogitThreshold = 0.32;

/// How much better the CPU finds its choice than the second best.
double gap(const GeneratedLogprobs& logprobs) {
  return logprobs.top[0].logprob - logprobs.top[1].logprob;
}

/// Every answer is the CPU's up to a token that the CPU nearly didn't choose. Says how many differ.
void check_tokens(const std::string& what, const std::vector<Answer>& gpu,
                  const std::vector<Answer>& cpu) {
  REQUIRE(gpu.size() == cpu.size());
  size_t differ = 0;
  size_t tokens = 0;
  for (size_t i = 0; i < gpu.size(); ++i) {
    tokens += cpu[i].ids.size();
    if (gpu[i].ids == cpu[i].ids) continue;
    ++differ;
    size_t at = 0;
    while (at < std::min(gpu[i].ids.size(), cpu[i].ids.size()) && gpu[i].ids[at] == cpu[i].ids[at])
      ++at;
    REQUIRE(at < cpu[i].ids.size());
    CAPTURE(i);
    CAPTURE(at);
    CHECK(gap(cpu[i].logprobs[at]) < kLogitThreshold);
  }
  MESSAGE(what, ": ", gpu.size(), " answers, ", tokens, " tokens, ", differ, " differ");
}

void check_same_bits(const std::vector<Answer>& a, const std::vector<Answer>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].same_bits(b[i]));
  }
}

}  // namespace

TEST_CASE("cuda: the built-in model answers as on the CPU, in mixed batches") {
  TinyModel cpu(Device::kCpu);
  TinyModel gpu(Device::kCuda);
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const std::vector<Ids> prompts = tiny_prompts(kv_dtype == DType::kBF16 ? 4 : 12);
    const EngineSetting setting{.kv_dtype = kv_dtype};
    check_tokens(fmt::format("kv {}", kv_dtype_name(kv_dtype)), gpu.run(prompts, 24, setting),
                 cpu.run(prompts, 24, setting));
  }
}

TEST_CASE("cuda: the order of threads, of copies and of work on streams changes nothing") {
  std::vector<Ids> prompts = tiny_prompts(16);
  prompts.resize(2);
  std::vector<Answer> first;
  for_each_schedule([&] {
    TinyModel gpu(Device::kCuda);
    const std::vector<Answer> answers = gpu.run(prompts, 4, {});
    if (first.empty()) first = answers;
    check_same_bits(answers, first);
  });
}

TEST_CASE("cuda: decoding rows give the same bits in any company, with and without guesses") {
  const std::vector<Ids> prompts = tiny_prompts(12);
  // Invariant, since cuBLASLt may compute the prompts of a batch in another way than one alone.
  TinyModel gpu(Device::kCuda, true);
  const std::vector<Answer> alone = gpu.run(prompts, 16, {.max_num_seqs = 1});
  check_same_bits(gpu.run(prompts, 16, {.max_num_seqs = 16}), alone);
  const std::vector<Answer> guessed = gpu.run(prompts, 16, {.max_num_seqs = 3, .draft = true});
  check_same_bits(guessed, alone);
  int64_t accepted = 0;
  for (const Answer& answer : guessed) accepted += answer.accepted;
  CHECK(accepted > 0);
}

TEST_CASE("cuda: --invariant gives the same bits however prompts are cut, shared or recomputed") {
  std::vector<Ids> prompts = tiny_prompts(16);
  // A long one, and another that begins like it.
  Ids text;
  for (const Ids& prompt : prompts) text.insert(text.end(), prompt.begin(), prompt.end());
  text.resize(110);
  prompts.resize(3);
  prompts.push_back(text);
  text.insert(text.end(), prompts[0].begin(), prompts[0].end());
  prompts.push_back(text);
  TinyModel gpu(Device::kCuda, true);
  const std::vector<Answer> plain = gpu.run(prompts, 12, {.max_num_seqs = 1, .prefill_chunk = 512});
  check_same_bits(gpu.run(prompts, 12, {.max_num_seqs = 4, .prefill_chunk = 16}), plain);
  const std::vector<Answer> shared = gpu.run(
      prompts, 12, {.max_num_seqs = 1, .prefill_chunk = 48, .prefix_cache = true, .draft = true});
  check_same_bits(shared, plain);
  CHECK(shared.back().cached_tokens > 0);

  prompts.resize(3);
  const std::vector<Answer> longer = gpu.run(prompts, 24, {.max_num_seqs = 1, .ignore_eos = true});
  check_same_bits(gpu.run(prompts, 24, {.cache_tokens = 80, .ignore_eos = true}), longer);
  CHECK(gpu.num_preemptions() > 0);
}

}  // namespace llm
