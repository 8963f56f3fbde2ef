// What keys and values of 8 bits cost in exactness, on a model that is hard for them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/cpu_info.h"
#include "checkpoint_maker.h"
#include "model_harness.h"
#include "test_data.h"

namespace llm {
namespace {

/// Mean of |a - b| over the logits' range, both [T, vocab_size].
double mean_difference(const Logits& a, const Logits& b) {
  REQUIRE(a.size() == b.size());
  const auto [low, high] = std::minmax_element(a.begin(), a.end());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(double{a[i]} - double{b[i]});
  return sum / static_cast<double>(a.size()) / (double{*high} - double{*low});
}

TEST_CASE("R6: a cache of 8 bits keeps the logits near, also where keys are large") {
  constexpr int64_t kVocabSize = 512;
  std::vector<int32_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 37 % kVocabSize);
  for (const float factor : {1.0f, 50.0f}) {
    const auto dir = fresh_test_dir("kv-dtype") / "model";
    write_random2(dir, {.vocab_size = kVocabSize, .k_norm_factor = factor});
    for (const Isa isa : supported_isas()) {
      const auto logits = [&](DType dtype) {
        return RunningModel(dir, {.isa = isa, .act = ActDType::kF32, .kv_dtype = dtype})
            .logits(ids);
      };
      const Logits f32 = logits(DType::kF32);
      const double bf16 = mean_difference(f32, logits(DType::kBF16));
      const double int8 = mean_difference(f32, logits(DType::kI8));
      const double fp8 = mean_difference(f32, logits(DType::kF8E4M3));
      CAPTURE(name_of(isa));
      CAPTURE(factor);
      CHECK(bf16 > 0);
      // Against BF16's 8 significant bits E4M3 has 4, so it rounds 16 times as coarsely. INT8's
      // steps are 1/127 of a head's largest value, 4 of BF16's steps there (finer than these below
      // it).
      CHECK(int8 < 4 * bf16);
      CHECK(fp8 < 16 * bf16);
    }
  }
}

}  // namespace
}  // namespace llm
