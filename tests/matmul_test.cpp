// The law of accumulation (head of backend/cpu/matmul.h) to the bit, and values against double
// precision.
#include "backend/cpu/matmul.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/cpu_info.h"

namespace llm {
namespace {

using Rng = std::mt19937;

std::vector<float> random_floats(Rng& rng, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(rng);
  return values;
}

/// Bytes that end where the next page can't be read: one byte too many is a crash. Starting
/// `bytes` before a page's end also makes the address as odd as `bytes` is.
class GuardedBytes {
 public:
  explicit GuardedBytes(int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t usable = (bytes + page - 1) / page * page;
    size_ = static_cast<size_t>(usable + page);
    base_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + usable, static_cast<size_t>(page), PROT_NONE) == 0);
    data_ = base_ + (usable - bytes);
  }
  ~GuardedBytes() { munmap(base_, size_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// One weight, its bytes (at any alignment: `spare` more lie behind it) and its exact values.
struct TestWeight {
  TestWeight(Rng& rng, DType dtype, int64_t n, int64_t k, bool with_bias, int64_t spare = 0)
      : bytes(n * k * bits_of(dtype) / 8 + spare), values(random_floats(rng, n * k)) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::byte* to = bytes.data() + static_cast<int64_t>(i) * bits_of(dtype) / 8;
      if (dtype == DType::kF32) {
        std::memcpy(to, &values[i], 4);
      } else if (dtype == DType::kF16) {
        const F16 half = to_f16(values[i]);
        std::memcpy(to, &half, 2);
        values[i] = to_float(half);
      } else {
        const BF16 half = to_bf16(values[i]);
        std::memcpy(to, &half, 2);
        values[i] = to_float(half);
      }
    }
    if (with_bias) bias = random_floats(rng, n);
    part = {"w", ConstTensor{bytes.data(), dtype, {n, k}}, with_bias ? bias.data() : nullptr,
            nullptr};
  }
  GuardedBytes bytes;
  std::vector<float> values;
  std::vector<float> bias;
  LinearPart part;
};

struct Layer {
  std::vector<std::unique_ptr<TestWeight>> weights;
  Linear linear;

  void add(Rng& rng, DType dtype, int64_t n, int64_t k, bool bias, int64_t spare = 0) {
    weights.push_back(std::make_unique<TestWeight>(rng, dtype, n, k, bias, spare));
    linear.parts.push_back(weights.back()->part);
    linear.k = k;
  }
};

std::vector<float> product(int threads, Isa isa, const std::vector<float>& x, int64_t m,
                           const Linear& w, ActDType act, Epilogue epilogue = Epilogue::kStore,
                           float initial = 0.0f) {
  ThreadPool pool(threads);
  PackedRows packed;
  packed.pack(pool, matmul_kernels(isa), x.data(), m, w.k, act);
  const int64_t width = epilogue == Epilogue::kSiluMul ? w.n() / 2 : w.n();
  const int64_t ldy = width + 3;  // the gap must stay as it is
  std::vector<float> y(static_cast<size_t>(m * ldy), initial);
  matmul(pool, matmul_kernels(isa), y.data(), ldy, packed, w, epilogue);
  std::vector<float> dense;
  for (int64_t i = 0; i < m; ++i) {
    const auto row = y.begin() + i * ldy;
    dense.insert(dense.end(), row, row + width);
    for (int64_t j = width; j < ldy; ++j) CHECK(row[j] == initial);
  }
  return dense;
}

bool same_bits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

/// Sum in double precision and the sum of magnitudes, which bounds the rounding errors.
struct Sum {
  double value = 0;
  double magnitude = 0;
};

Sum reference(const TestWeight& w, int64_t row, const float* x, int64_t k, ActDType act) {
  Sum sum;
  for (int64_t i = 0; i < k; ++i) {
    const double value = act == ActDType::kBF16 ? to_float(to_bf16(x[i])) : x[i];
    const double term = value * w.values[static_cast<size_t>(row * k + i)];
    sum.value += term;
    sum.magnitude += std::abs(term);
  }
  if (!w.bias.empty()) {
    sum.value += w.bias[static_cast<size_t>(row)];
    sum.magnitude += std::abs(w.bias[static_cast<size_t>(row)]);
  }
  return sum;
}

/// A chain of k float32 additions of rounded products: each of at most 2 k + 2 roundings errs by
/// half an ulp (2^-24) of a partial sum that the magnitudes bound.
double tolerance(const Sum& sum, int64_t k) {
  return static_cast<double>(2 * k + 2) * 0x1p-24 * sum.magnitude + 1e-30;
}

void check_values(const Layer& layer, const std::vector<float>& x, int64_t m, Isa isa,
                  ActDType act) {
  const int64_t k = layer.linear.k;
  const std::vector<float> y = product(2, isa, x, m, layer.linear, act);
  size_t at = 0;
  int64_t wrong = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (const auto& w : layer.weights) {
      for (int64_t j = 0; j < w->part.rows(); ++j, ++at) {
        const Sum sum = reference(*w, j, x.data() + i * k, k, act);
        wrong += !(std::abs(y[at] - sum.value) <= tolerance(sum, k));
      }
    }
  }
  CHECK(wrong == 0);
}

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr ActDType kActs[] = {ActDType::kF32, ActDType::kBF16};

TEST_CASE("matmul: ragged sizes, every type, against double precision, at the memory's end") {
  Rng rng(1);
  constexpr int64_t kSizes[][3] = {{1, 1, 1},   {1, 5, 8},    {1, 33, 31},  {2, 16, 32},
                                   {3, 17, 33}, {4, 100, 64}, {5, 31, 100}, {7, 64, 129},
                                   {12, 48, 7}, {13, 70, 34}, {33, 9, 65},  {40, 130, 48}};
  for (const Isa isa : supported_isas()) {
    for (const DType dtype : kDTypes) {
      for (const ActDType act : kActs) {
        for (const auto& size : kSizes) {
          const int64_t m = size[0], n = size[1], k = size[2];
          CAPTURE(name_of(isa));
          CAPTURE(name_of(dtype));
          CAPTURE(name_of(act));
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          Layer layer;
          layer.add(rng, dtype, n, k, n % 2 == 1);
          check_values(layer, random_floats(rng, m * k), m, isa, act);
        }
      }
    }
  }
}

TEST_CASE("matmul: parts of mixed types, sizes, biases and odd addresses") {
  Rng rng(2);
  for (const Isa isa : supported_isas()) {
    for (const ActDType act : kActs) {
      for (const int64_t m : {1, 3, 6, 37}) {
        CAPTURE(name_of(isa));
        CAPTURE(m);
        Layer layer;
        layer.add(rng, DType::kBF16, 40, 96, true, 1);
        layer.add(rng, DType::kF16, 7, 96, false, 3);
        layer.add(rng, DType::kF32, 33, 96, true, 2);
        layer.add(rng, DType::kBF16, 1, 96, false, 0);
        check_values(layer, random_floats(rng, m * 96), m, isa, act);
      }
    }
  }
}

TEST_CASE("matmul: a row's result has the same bits among any number of rows") {
  Rng rng(3);
  constexpr int64_t kK = 203, kN = 75, kM = 300;
  const std::vector<float> x = random_floats(rng, kM * kK);
  for (const Isa isa : supported_isas()) {
    for (const DType dtype : kDTypes) {
      for (const ActDType act : kActs) {
        CAPTURE(name_of(isa));
        CAPTURE(name_of(dtype));
        Layer layer;
        layer.add(rng, dtype, kN, kK, true);
        const std::vector<float> all = product(2, isa, x, kM, layer.linear, act);
        for (const int64_t m : {1, 2, 3, 4, 5, 7, 12, 13, 16, 17, 32, 33, 64}) {
          CAPTURE(m);
          const std::vector<float> some = product(1, isa, x, m, layer.linear, act);
          CHECK(same_bits(some.data(), all.data(), m * kN));
        }
        for (const int64_t row : {1, 11, 12, 100, 299}) {
          const std::vector<float> alone(x.begin() + row * kK, x.begin() + (row + 1) * kK);
          const std::vector<float> one = product(1, isa, alone, 1, layer.linear, act);
          CHECK(same_bits(one.data(), all.data() + row * kN, kN));
        }
      }
    }
  }
}

TEST_CASE("matmul: an output has the same bits wherever its row stands") {
  Rng rng(4);
  constexpr int64_t kK = 70, kN = 61;
  Layer layer;
  layer.add(rng, DType::kBF16, kN, kK, false);
  for (const Isa isa : supported_isas()) {
    for (const int64_t m : {1, 20}) {
      const std::vector<float> x = random_floats(rng, m * kK);
      const std::vector<float> all = product(1, isa, x, m, layer.linear, ActDType::kBF16);
      for (const int64_t row : {0, 15, 16, 47, 60}) {
        Linear one = layer.linear;
        const std::byte* data = layer.linear.parts[0].weight.plain().data + row * kK * 2;
        one.parts[0].weight = ConstTensor{data, DType::kBF16, {1, kK}};
        const std::vector<float> y = product(1, isa, x, m, one, ActDType::kBF16);
        for (int64_t i = 0; i < m; ++i) CHECK(same_bits(&y[i], &all[i * kN + row], 1));
      }
    }
  }
}

TEST_CASE("matmul: the address of the weights doesn't matter") {
  constexpr int64_t kN = 50;
  for (const Isa isa : supported_isas()) {
    for (const DType dtype : kDTypes) {
      for (const int64_t k : {16, 32, 128, 150}) {
        for (const int64_t m : {1, 3, 14}) {
          std::vector<float> first;
          for (const int64_t spare : {0, 1, 2, 4, 8, 20, 32, 36, 60}) {
            CAPTURE(name_of(isa));
            CAPTURE(k);
            CAPTURE(m);
            CAPTURE(spare);
            Rng rng(11);
            Layer layer;
            layer.add(rng, dtype, kN, k, false, spare);
            const std::vector<float> x = random_floats(rng, m * k);
            if (spare == 0) check_values(layer, x, m, isa, ActDType::kBF16);
            const auto y = product(2, isa, x, m, layer.linear, ActDType::kBF16);
            if (spare == 0) first = y;
            CHECK(same_bits(y.data(), first.data(), m * kN));
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: any number of threads gives the same bits") {
  Rng rng(5);
  constexpr int64_t kK = 130, kN = 700;
  for (const Isa isa : supported_isas()) {
    for (const int64_t m : {1, 16, 70}) {
      const std::vector<float> x = random_floats(rng, m * kK);
      Layer layer;
      layer.add(rng, DType::kBF16, kN, kK, true);
      const std::vector<float> one = product(1, isa, x, m, layer.linear, ActDType::kBF16);
      for (const int threads : {2, 3, 5}) {
        const std::vector<float> y = product(threads, isa, x, m, layer.linear, ActDType::kBF16);
        CHECK(same_bits(y.data(), one.data(), m * kN));
      }
    }
  }
}

TEST_CASE("matmul: AVX2 and AVX-512 have one float path") {
  Rng rng(6);
  constexpr int64_t kK = 333, kN = 50, kM = 9;
  const std::vector<float> x = random_floats(rng, kM * kK);
  for (const DType dtype : kDTypes) {
    Layer layer;
    layer.add(rng, dtype, kN, kK, true);
    std::vector<float> expected(kM * kN);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        const TestWeight& w = *layer.weights[0];
        float acc = 0.0f;
        for (int64_t p = 0; p < kK; ++p) {
          acc = std::fma(w.values[static_cast<size_t>(j * kK + p)], x[i * kK + p], acc);
        }
        expected[static_cast<size_t>(i * kN + j)] = acc + w.bias[static_cast<size_t>(j)];
      }
    }
    for (const Isa isa : supported_isas()) {
      if (isa == Isa::kGeneric) continue;
      CAPTURE(name_of(isa));
      const std::vector<float> y = product(2, isa, x, kM, layer.linear, ActDType::kF32);
      CHECK(same_bits(y.data(), expected.data(), kM * kN));
    }
  }
}

TEST_CASE("matmul: kAdd adds to what is there") {
  Rng rng(7);
  for (const Isa isa : supported_isas()) {
    for (const int64_t m : {1, 19}) {
      Layer layer;
      layer.add(rng, DType::kBF16, 45, 40, true);
      const std::vector<float> x = random_floats(rng, m * 40);
      const auto stored = product(2, isa, x, m, layer.linear, ActDType::kBF16);
      const auto added =
          product(2, isa, x, m, layer.linear, ActDType::kBF16, Epilogue::kAdd, 0.75f);
      for (size_t i = 0; i < stored.size(); ++i) CHECK(added[i] == 0.75f + stored[i]);
    }
  }
}

TEST_CASE("matmul: kSiluMul is silu(gate) * up, the same for every m") {
  Rng rng(8);
  constexpr int64_t kK = 48, kI = 53;
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    Layer layer;
    layer.add(rng, DType::kBF16, kI, kK, true);
    layer.add(rng, DType::kF16, kI, kK, false);
    constexpr int64_t kM = 18;
    const std::vector<float> x = random_floats(rng, kM * kK);
    const auto both = product(2, isa, x, kM, layer.linear, ActDType::kF32);
    const auto y = product(2, isa, x, kM, layer.linear, ActDType::kF32, Epilogue::kSiluMul);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kI; ++j) {
        const double gate = both[static_cast<size_t>(i * 2 * kI + j)];
        const double up = both[static_cast<size_t>(i * 2 * kI + kI + j)];
        const double expected = gate / (1.0 + std::exp(-gate)) * up;
        // silu errs by 4 ulp, the product by half of one.
        CHECK(std::abs(y[static_cast<size_t>(i * kI + j)] - expected) <=
              4.5 * 0x1p-23 * std::abs(expected));
      }
    }
    for (const int64_t m : {1, 2, 5, 17}) {
      const auto some = product(1, isa, x, m, layer.linear, ActDType::kF32, Epilogue::kSiluMul);
      CHECK(same_bits(some.data(), y.data(), m * kI));
    }
  }
}

TEST_CASE("silu: whole range, special values and tails") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> gate;
  for (float g = -120.0f; g <= 120.0f; g += 0.0371f) gate.push_back(g);
  for (const float g : {0.0f, -0.0f, 1e-30f, -1e-30f, 88.8f, -87.2f, 3e38f, -3e38f}) {
    gate.push_back(g);
  }
  const std::vector<float> one(gate.size(), 1.0f);
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    const auto silu_mul = matmul_kernels(isa).silu_mul;
    std::vector<float> y(gate.size());
    silu_mul(y.data(), gate.data(), one.data(), static_cast<int64_t>(y.size()));
    double worst = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double g = gate[i];
      const double expected = g / (1.0 + std::exp(-g));
      if (g < -87.3) {
        CHECK(std::abs(y[i] - expected) < 1.3e-36);  // exp(-g) counts as infinite there
      } else if (expected != 0) {
        worst = std::max(worst, std::abs(y[i] - expected) / std::abs(expected));
      }
      float alone;
      silu_mul(&alone, &gate[i], &one[i], 1);
      CHECK(same_bits(&alone, &y[i], 1));
    }
    CHECK(worst < 4 * 0x1p-23);
    const float special[] = {inf, std::nanf("")};
    float out[2];
    silu_mul(out, special, one.data(), 2);
    CHECK(out[0] == inf);
    CHECK(std::isnan(out[1]));
  }
}

TEST_CASE("matmul: NaN and infinity in a weight or a row stay in their outputs") {
  Rng rng(9);
  constexpr int64_t kK = 50, kN = 40;
  const float inf = std::numeric_limits<float>::infinity();
  for (const Isa isa : supported_isas()) {
    for (const int64_t m : {1, 21}) {
      for (const ActDType act : kActs) {
        CAPTURE(name_of(isa));
        Layer layer;
        layer.add(rng, DType::kBF16, kN, kK, false);
        std::vector<float> x = random_floats(rng, m * kK);
        for (int64_t i = 0; i < m; ++i) x[static_cast<size_t>(i * kK + 49)] = 1.0f;
        const BF16 nan = to_bf16(std::nanf("")), infinite = to_bf16(inf);
        std::memcpy(layer.weights[0]->bytes.data() + (17 * kK + 49) * 2, &nan, 2);
        std::memcpy(layer.weights[0]->bytes.data() + (39 * kK + 49) * 2, &infinite, 2);
        auto y = product(2, isa, x, m, layer.linear, act);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < kN; ++j) {
            const float value = y[static_cast<size_t>(i * kN + j)];
            CHECK(std::isnan(value) == (j == 17));
            CHECK((value == inf) == (j == 39));
          }
        }
        x[static_cast<size_t>((m - 1) * kK + 3)] = std::nanf("");
        y = product(2, isa, x, m, layer.linear, act);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < kN; ++j) {
            CHECK(std::isnan(y[static_cast<size_t>(i * kN + j)]) == (i == m - 1 || j == 17));
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: shapes that don't fit are our own bug, and said to be") {
  Rng rng(10);
  ThreadPool pool(1);
  const MatmulKernels& kernels = matmul_kernels(Isa::kGeneric);
  Layer layer;
  layer.add(rng, DType::kBF16, 4, 8, false);
  const std::vector<float> x(16, 1.0f);
  std::vector<float> y(4);
  PackedRows packed;
  packed.pack(pool, kernels, x.data(), 1, 16, ActDType::kF32);
  CHECK_THROWS_AS(matmul(pool, kernels, y.data(), 4, packed, layer.linear, Epilogue::kStore),
                  std::logic_error);
  packed.pack(pool, kernels, x.data(), 1, 8, ActDType::kF32);
  CHECK_THROWS_AS(matmul(pool, kernels, y.data(), 4, packed, layer.linear, Epilogue::kSiluMul),
                  std::logic_error);
  ConstTensor other = layer.linear.parts[0].weight.plain();
  other.dtype = DType::kI8;
  layer.linear.parts[0].weight = other;
  CHECK_THROWS_AS(matmul(pool, kernels, y.data(), 4, packed, layer.linear, Epilogue::kStore),
                  std::logic_error);
}

}  // namespace
}  // namespace llm
