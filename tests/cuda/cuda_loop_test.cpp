// The decode loop on a GPU: what a step costs the host and the device, and that none of what makes
// it quick changes an answer.
#include <doctest/doctest.h>

#include <vector>

#include "tiny_model.h"

namespace llm {
namespace {

TEST_CASE("cuda loop: graphs, overlap and prefetching change no bit") {
  std::vector<Ids> prompts = tiny_prompts(12);
  prompts.resize(5);
  const auto answers = [&](const CudaTuning& tuning) {
    TinyModel gpu(Device::kCuda, false, tuning);
    return gpu.run(prompts, 14, {.max_num_seqs = 3});
  };
  const std::vector<Answer> plain = answers({.graphs = false, .overlap = false, .prefetch = false});
  for (const CudaTuning& tuning : {CudaTuning{}, CudaTuning{.graphs = false},
                                   CudaTuning{.overlap = false}, CudaTuning{.prefetch = true}}) {
    const std::vector<Answer> other = answers(tuning);
    REQUIRE(other.size() == plain.size());
    for (size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(i);
      CHECK(other[i].same_bits(plain[i]));
    }
  }
}

TEST_CASE("cuda loop: a step ahead draws what it would have drawn with all ids known") {
  std::vector<Ids> prompts = tiny_prompts(16);
  prompts.resize(4);
  TinyModel gpu(Device::kCuda);
  EngineSetting setting{.max_num_seqs = 3};
  setting.sampling = {.temperature = 1.3f,
                      .top_k = 40,
                      .top_p = 0.95f,
                      .repetition_penalty = 1.2f,
                      .presence_penalty = 0.5f,
                      .frequency_penalty = 0.3f,
                      .seed = 11};
  const std::vector<Answer> ahead = gpu.run(prompts, 20, setting);
  setting.wait_for_ids = true;
  const std::vector<Answer> behind = gpu.run(prompts, 20, setting);
  for (size_t i = 0; i < ahead.size(); ++i) {
    CAPTURE(i);
    CHECK(ahead[i].same_bits(behind[i]));
  }
  setting.sampling.temperature = 0;
  setting.wait_for_ids = false;
  const std::vector<Answer> greedy = gpu.run(prompts, 20, setting);
  size_t drawn = 0;
  for (size_t i = 0; i < ahead.size(); ++i) drawn += ahead[i].ids != greedy[i].ids ? 1 : 0;
  CHECK(drawn > 0);
}

TEST_CASE("cuda loop: a context that outgrows its graph's goes on in the next") {
  Ids prompt;
  for (int32_t i = 0; i < 250; ++i) prompt.push_back(300 + i % 90);
  const auto answer = [&](bool graphs) {
    TinyModel gpu(Device::kCuda, false, {.graphs = graphs});
    return gpu.run({prompt}, 14, {.prefill_chunk = 256, .ignore_eos = true})[0];
  };
  const Answer with = answer(true);
  CHECK(with.ids.size() == 14);
  CHECK(with.same_bits(answer(false)));
}

}  // namespace
}  // namespace llm
