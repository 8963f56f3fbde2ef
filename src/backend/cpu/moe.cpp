#include "backend/cpu/moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace llm {
namespace {

float* resized(std::vector<float>& values, int64_t count) {
  values.resize(static_cast<size_t>(count));
  return values.data();
}

/// In place, over n scores.
void softmax(float* scores, int64_t n) {
  const float largest = *std::max_element(scores, scores + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += scores[i] = std::exp(scores[i] - largest);
  for (int64_t i = 0; i < n; ++i) scores[i] /= sum;
}

}  // namespace

void CpuMoe::run(float* y, const float* x, int64_t rows, const Moe& moe) {
  const int64_t width = moe.gate.k;
  choose(x, rows, moe);
  float* sum = resized(sum_, rows * width);
  std::fill_n(sum, rows * width, 0.0f);
  for (size_t e = 0; e < moe.experts.size(); ++e) {
    const std::vector<Choice>& chosen = rows_of_[e];
    if (chosen.empty()) continue;
    run_expert(x, moe.experts[e], chosen);
    for (size_t i = 0; i < chosen.size(); ++i) {
      float* to = sum + chosen[i].row * width;
      const float* from = out_.data() + static_cast<int64_t>(i) * width;
      for (int64_t j = 0; j < width; ++j) to[j] += chosen[i].weight * from[j];
    }
  }
  for (int64_t i = 0; i < rows * width; ++i) y[i] += sum[i];
}

/// Fills rows_of_. Of equal scores the lower expert is chosen.
void CpuMoe::choose(const float* x, int64_t rows, const Moe& moe) {
  const int64_t num_experts = moe.num_experts();
  float* scores = resized(scores_, rows * num_experts);
  packed_.pack(*pool_, *kernels_, x, rows, moe.gate.k, ActDType::kF32);
  matmul(*pool_, *kernels_, scores, num_experts, packed_, moe.gate, Epilogue::kStore);
  rows_of_.resize(moe.experts.size());
  for (std::vector<Choice>& chosen : rows_of_) chosen.clear();
  std::vector<int64_t> order(moe.experts.size());
  for (int64_t row = 0; row < rows; ++row) {
    float* p = scores + row * num_experts;
    softmax(p, num_experts);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(order.begin(), order.begin() + moe.top_k, order.end(),
                      [&](int64_t a, int64_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
    float divisor = 1.0f;
    if (moe.norm_topk_prob) {
      divisor = 0.0f;
      for (int64_t i = 0; i < moe.top_k; ++i) divisor += p[order[static_cast<size_t>(i)]];
    }
    for (int64_t i = 0; i < moe.top_k; ++i) {
      const int64_t expert = order[static_cast<size_t>(i)];
      rows_of_[static_cast<size_t>(expert)].push_back({row, p[expert] / divisor});
    }
  }
}

/// out_ = expert(x) of these rows.
void CpuMoe::run_expert(const float* x, const Expert& expert, const std::vector<Choice>& rows) {
  const int64_t count = std::ssize(rows);
  const int64_t width = expert.gate_up_proj.k;
  float* gathered = resized(gathered_, count * width);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(x + rows[static_cast<size_t>(i)].row * width, width, gathered + i * width);
  }
  const int64_t inner = expert.down_proj.k;
  float* gated = resized(gated_, count * inner);
  packed_.pack(*pool_, *kernels_, gathered, count, width, act_);
  matmul(*pool_, *kernels_, gated, inner, packed_, expert.gate_up_proj, Epilogue::kSiluMul);
  packed_.pack(*pool_, *kernels_, gated, count, inner, act_);
  matmul(*pool_, *kernels_, resized(out_, count * width), width, packed_, expert.down_proj,
         Epilogue::kStore);
}

}  // namespace llm
