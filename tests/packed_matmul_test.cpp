// Matrix products over packed weights, on every instruction set, against a double reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/matmul.h"
#include "base/cpu_info.h"
#include "quant/word_order.h"

namespace llm {
namespace {

struct Spec {
  CodeType type = CodeType::kU4;
  int64_t n = 0, k = 0, group_size = 0;
  bool zeros = false;
  bool shuffled = false;
};

/// A packed matrix of random codes.
class RandomPacked {
 public:
  RandomPacked(std::mt19937& rng, const Spec& s)
      : shape_{s.type, s.n, s.k, std::min(s.group_size, s.k), s.zeros, s.shuffled},
        memory_(shape_.bytes()) {
    const PackedArrays to = arrays_in(shape_, memory_.data());
    const int top = s.type == CodeType::kU4 ? 15 : 255;
    zero_ = s.type == CodeType::kF8E4M3 ? 0 : (top + 1) / 2;
    std::uniform_int_distribution<int> code(0, top);
    std::uniform_real_distribution<float> scale(0.5f, 1.5f);
    for (int64_t o = 0; o < s.n; ++o) {
      const int64_t panel = o / kPanelOutputs, lane = o % kPanelOutputs;
      for (int64_t g = 0; g < shape_.num_groups(); ++g) {
        const int64_t at = (panel * shape_.num_groups() + g) * kPanelOutputs + lane;
        to.scales[at] = scale(rng) / static_cast<float>(top);
        if (s.zeros) to.zeros[at] = static_cast<uint8_t>(code(rng));
      }
      const int64_t per_word = columns_per_word(s.type);
      for (int64_t j = 0; j < shape_.padded_k(); ++j) {
        int value = code(rng);
        if (s.type == CodeType::kF8E4M3 && (value & 0x7f) == 0x7f) value = 0x7e;
        if (j >= s.k) value = 0;  // meets zeros of x only
        to.codes[(panel * shape_.num_words() + j / per_word) * kPanelOutputs + lane] |=
            static_cast<uint32_t>(value) << shift_in_word(s.type, j % per_word);
      }
    }
    if (s.shuffled) {
      std::iota(to.input_order, to.input_order + s.k, 0);
      std::shuffle(to.input_order, to.input_order + s.k, rng);
    }
  }
  PackedMatrix view() const { return view_of(shape_, memory_.data(), zero_); }

 private:
  PackedShape shape_;
  Buffer memory_;
  int32_t zero_ = 0;
};

std::vector<float> random_x(std::mt19937& rng, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(rng);
  return x;
}

Linear linear_of(const PackedMatrix& matrix, const float* bias = nullptr) {
  return {"w", {LinearPart{"w", matrix, bias, nullptr}}, matrix.shape.k};
}

std::vector<float> product(int threads, Isa isa, const std::vector<float>& x, int64_t m,
                           const Linear& w, ActDType act, Epilogue epilogue = Epilogue::kStore) {
  ThreadPool pool(threads);
  const MatmulKernels& kernels = matmul_kernels(isa);
  PackedRows packed;
  packed.pack(pool, kernels, x.data(), m, w.k, act);
  const int64_t columns = epilogue == Epilogue::kSiluMul ? w.n() / 2 : w.n();
  std::vector<float> y(static_cast<size_t>(m * columns), 1.0f);
  matmul(pool, kernels, y.data(), columns, packed, w, epilogue);
  return y;
}

/// Largest error of y against x W^T, in units of the sum of magnitudes.
double error_of(const std::vector<float>& y, const std::vector<float>& x, int64_t m,
                const PackedMatrix& matrix, ActDType act) {
  const int64_t n = matrix.shape.n, k = matrix.shape.k;
  std::vector<float> row(static_cast<size_t>(k));
  double worst = 0;
  for (int64_t o = 0; o < n; ++o) {
    unpack_row(row.data(), matrix, o);
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0, magnitude = 1e-30;
      for (int64_t j = 0; j < k; ++j) {
        const float value = x[static_cast<size_t>(i * k + j)];
        const double operand = act == ActDType::kBF16 ? to_float(to_bf16(value)) : value;
        const double term = operand * row[static_cast<size_t>(j)];
        sum += term;
        magnitude += std::abs(term);
      }
      worst = std::max(worst, std::abs(y[static_cast<size_t>(i * n + o)] - sum) / magnitude);
    }
  }
  return worst;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<Spec> specs() {
  std::vector<Spec> all;
  for (const CodeType type : {CodeType::kU4, CodeType::kU8, CodeType::kF8E4M3}) {
    const bool integer = type != CodeType::kF8E4M3;
    all.push_back({type, 1, 8, 8});
    all.push_back({type, 15, 64, 32, integer});
    all.push_back({type, 61, 130, 64});
    all.push_back({type, 16, 160, 128, integer, true});
    all.push_back({type, 17, 200, 200, false, true});
    all.push_back({type, 40, 13, 13});
  }
  return all;
}

// Accumulation in float32 over k <= 200 steps: each rounds by 2^-24 of what is summed so far.
constexpr double kLimit = 200.0 / (1 << 24);

}  // namespace

TEST_CASE("packed matmul: all types, groups and orders against double precision") {
  std::mt19937 rng(1);
  for (const Spec& spec : specs()) {
    const RandomPacked matrix(rng, spec);
    const Linear linear = linear_of(matrix.view());
    for (const Isa isa : supported_isas()) {
      for (const ActDType act : {ActDType::kF32, ActDType::kBF16}) {
        for (const int64_t m : {1, 2, 7, 17, 70}) {
          CAPTURE(static_cast<int>(spec.type));
          CAPTURE(spec.n);
          CAPTURE(spec.k);
          CAPTURE(name_of(isa));
          CAPTURE(m);
          const std::vector<float> x = random_x(rng, m * spec.k);
          REQUIRE(error_of(product(2, isa, x, m, linear, act), x, m, matrix.view(), act) <= kLimit);
        }
      }
    }
  }
}

TEST_CASE("packed matmul: a row has the same bits alone, in any batch and with any threads") {
  std::mt19937 rng(2);
  for (const Spec& spec : specs()) {
    const RandomPacked matrix(rng, spec);
    const Linear linear = linear_of(matrix.view());
    for (const Isa isa : supported_isas()) {
      for (const ActDType act : {ActDType::kF32, ActDType::kBF16}) {
        constexpr int64_t kRows = 70;
        const std::vector<float> x = random_x(rng, kRows * spec.k);
        const std::vector<float> all = product(1, isa, x, kRows, linear, act);
        CHECK(same_bits(all, product(3, isa, x, kRows, linear, act)));
        for (const int64_t m : {1, 3, 9, 13}) {
          const std::vector<float> some(x.begin(), x.begin() + m * spec.k);
          const std::vector<float> y = product(2, isa, some, m, linear, act);
          CHECK(same_bits(y, {all.begin(), all.begin() + m * spec.n}));
        }
      }
    }
  }
}

TEST_CASE("packed matmul: parts of different kinds, biases and epilogues") {
  std::mt19937 rng(3);
  constexpr int64_t kN = 50, kK = 96, kM = 5;
  const RandomPacked gate(rng, {CodeType::kU4, kN, kK, 32, true, true});
  const RandomPacked up(rng, {CodeType::kF8E4M3, kN, kK, 96});
  const std::vector<float> bias = random_x(rng, kN);
  Linear both = linear_of(gate.view(), bias.data());
  both.parts.push_back(linear_of(up.view()).parts[0]);
  const std::vector<float> x = random_x(rng, kM * kK);
  for (const Isa isa : supported_isas()) {
    const auto g = product(1, isa, x, kM, linear_of(gate.view()), ActDType::kF32);
    const auto u = product(1, isa, x, kM, linear_of(up.view()), ActDType::kF32);
    const auto joined = product(2, isa, x, kM, both, ActDType::kF32);
    const auto added = product(2, isa, x, kM, both, ActDType::kF32, Epilogue::kAdd);
    const auto gated = product(2, isa, x, kM, both, ActDType::kF32, Epilogue::kSiluMul);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t o = 0; o < kN; ++o) {
        const float left = g[static_cast<size_t>(i * kN + o)] + bias[static_cast<size_t>(o)];
        const float right = u[static_cast<size_t>(i * kN + o)];
        REQUIRE(joined[static_cast<size_t>(i * 2 * kN + o)] == left);
        REQUIRE(joined[static_cast<size_t>(i * 2 * kN + kN + o)] == right);
        REQUIRE(added[static_cast<size_t>(i * 2 * kN + o)] == 1.0f + left);
        const double silu = left / (1 + std::exp(-double{left})) * right;
        REQUIRE(gated[static_cast<size_t>(i * kN + o)] == doctest::Approx(silu).epsilon(1e-5));
      }
    }
  }
}

}  // namespace llm
