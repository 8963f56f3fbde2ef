// The matrix product for few rows against double, and its promise: the bits of an output depend on
// nothing but its own row of x and of W.
#include <algorithm>
#include <utility>

#include "linear_reference.h"

namespace llm {
namespace {

/// x W^T of up to 64 rows, on the host; hidden is what becomes x by an RMSNorm on the way.
struct Problem {
  int m;
  int n;
  int k;
  std::vector<bf16> x;
  std::vector<bf16> weight;
  std::vector<float> bias;  // may be empty
  std::vector<float> hidden;
  std::vector<float> norm_weight;
  std::vector<int32_t> row_indices;  // may be empty

  Problem(int m_, int n_, int k_, bool has_bias, uint32_t seed = 1)
      : m(m_),
        n(n_),
        k(k_),
        x(random_bf16(size_t(m) * k, seed)),
        weight(random_bf16(size_t(n) * k, seed + 1)),
        bias(has_bias ? random_floats(n, seed + 2) : std::vector<float>()) {}

  void add_norm() {
    hidden = random_floats(size_t(m) * k, 11, 3);
    norm_weight = random_floats(k, 12);
  }

  /// Of row i of x and row j of W.
  Approx sum(int i, int j) const {
    return expected_sum(&x[size_t(i) * k], &weight[size_t(j) * k], k, bias.empty() ? 0 : bias[j]);
  }
};

/// The arrays of a problem on the device.
struct OnDevice {
  DeviceArray<bf16> x;
  DeviceArray<bf16> weight;
  DeviceArray<float> bias;
  DeviceArray<float> hidden;
  DeviceArray<float> norm_weight;
  DeviceArray<int32_t> row_indices;
  LinearWeights weights;
  NormedRows normed;
  DeviceArray<unsigned char> scratch;

  explicit OnDevice(const Problem& p)
      : x(p.x),
        weight(p.weight),
        bias(p.bias),
        hidden(p.hidden),
        norm_weight(p.norm_weight),
        row_indices(p.row_indices),
        weights{weight.data(), p.bias.empty() ? nullptr : bias.data(), p.n, p.k},
        normed{hidden.data(), p.row_indices.empty() ? nullptr : row_indices.data(),
               norm_weight.data(), 1e-6f},
        scratch(small_linear_scratch_bytes(weights)) {
    scratch.fill(0);
  }

  /// Whether the kernel's counters, at the head of the scratch memory, are 0 again.
  bool counters_are_zero() const {
    const std::vector<unsigned char> bytes = scratch.host();
    const size_t counters = bytes.empty() ? 0 : (weights.n + 15) / 16 * sizeof(unsigned);
    return std::all_of(bytes.begin(), bytes.begin() + counters, [](int b) { return b == 0; });
  }
};

enum class Norm { kNone, kFused, kSeparate };

/// The outputs of rows first .. first + m - 1, as floats. kAdd adds to `residual`.
std::vector<float> run(OnDevice& d, Epilogue epilogue, int first, int m, Norm norm = Norm::kNone,
                       const std::vector<float>& residual = {}) {
  SmallOperand operand;
  NormedRows rows = d.normed;
  if (rows.row_indices) {
    rows.row_indices += first;
  } else if (rows.hidden) {
    rows.hidden += size_t(first) * d.weights.k;
  }
  WatchedOutput<bf16> normed(norm == Norm::kSeparate ? size_t(m) * d.weights.k : 0);
  if (norm == Norm::kNone) {
    operand.x = d.x.data() + size_t(first) * d.weights.k;
  } else if (norm == Norm::kFused) {
    operand.normed = rows;
  } else {
    launch_rms_norm(normed.data(), rows, m, d.weights.k, nullptr);
    operand.x = normed.data();
  }
  const size_t size = size_t(m) * d.weights.n;
  if (epilogue == Epilogue::kSiluMul) {
    WatchedOutput<bf16> out(size / 2);
    launch_small_linear(out.data(), epilogue, operand, m, d.weights, d.scratch.data(), nullptr);
    return to_floats(out.host());
  }
  WatchedOutput<float> out(epilogue == Epilogue::kAdd ? residual : std::vector<float>(size, NAN));
  launch_small_linear(out.data(), epilogue, operand, m, d.weights, d.scratch.data(), nullptr);
  return out.host();
}

void check_values(const Problem& p) {
  CAPTURE(p.m);
  CAPTURE(p.n);
  CAPTURE(p.k);
  const std::vector<float> residual = random_floats(size_t(p.m) * p.n, 5, 10);
  std::vector<Approx> stored;
  std::vector<Approx> added;
  std::vector<Approx> gated;
  for (int i = 0; i < p.m; ++i) {
    for (int j = 0; j < p.n; ++j) {
      stored.push_back(p.sum(i, j));
      const float old = residual[added.size()];
      added.push_back(
          {stored.back().value + old, stored.back().bound + 2 * kFloatEpsilon * std::fabs(old)});
    }
    for (int j = 0; p.n % 2 == 0 && j < p.n / 2; ++j) {
      gated.push_back(expected_silu_mul(p.sum(i, j), p.sum(i, j + p.n / 2)));
    }
  }
  for_each_schedule([&] {
    OnDevice d(p);
    CHECK(count_wrong(run(d, Epilogue::kStore, 0, p.m), stored) == 0);
    CHECK(count_wrong(run(d, Epilogue::kAdd, 0, p.m, Norm::kNone, residual), added) == 0);
    if (p.n % 2 == 0) CHECK(count_wrong(run(d, Epilogue::kSiluMul, 0, p.m), gated) == 0);
    CHECK(d.counters_are_zero());
  });
}

TEST_CASE("cuda small linear: ragged shapes") {
  const int shapes[][3] = {{1, 8, 8},   {3, 24, 40},   {8, 16, 256},  {9, 40, 72}, {17, 21, 136},
                           {32, 33, 8}, {33, 50, 264}, {64, 72, 128}, {5, 1, 512}, {40, 2, 520}};
  for (const auto& [m, n, k] : shapes) {
    check_values(Problem(m, n, k, false));
    check_values(Problem(m, n, k, true));
  }
}

TEST_CASE("cuda small linear: widths of models") {
  // The built-in model's q/k/v, o, gate/up and down; Qwen3-0.6B's, shrunk, where k is split.
  const int shapes[][3] = {{2, 512, 256},  {5, 256, 256}, {4, 1536, 256},
                           {3, 256, 768},  {1, 64, 1024}, {2, 48, 2048},
                           {11, 32, 3072}, {1, 16, 4096}, {1, 8, 12288}};
  for (const auto& [m, n, k] : shapes) check_values(Problem(m, n, k, false));
}

TEST_CASE("cuda small linear: more row groups than blocks") {
  check_values(Problem(2, 312, 72, true));
  check_values(Problem(1, 17000, 8, false));  // on an H200 too
}

/// All that was computed for one row must be the same for any number of rows, in each epilogue.
void check_invariance(const Problem& p, int step) {
  CAPTURE(p.n);
  CAPTURE(p.k);
  const std::vector<float> residual = random_floats(size_t(p.m) * p.n, 5, 10);
  for_each_schedule([&] {
    OnDevice d(p);
    std::vector<float> alone[3];  // of each row by itself
    for (int row = 0; row < p.m; ++row) {
      for (const Epilogue e : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSiluMul}) {
        const std::vector<float> y = run(d, e, row, 1, Norm::kNone, rows_of(residual, p.n, row, 1));
        std::vector<float>& all = alone[static_cast<int>(e)];
        all.insert(all.end(), y.begin(), y.end());
      }
    }
    for (int m = 1; m <= p.m; m += step) {
      CAPTURE(m);
      for (const Epilogue e : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSiluMul}) {
        const int width = e == Epilogue::kSiluMul ? p.n / 2 : p.n;
        const std::vector<float> together =
            run(d, e, 0, m, Norm::kNone, rows_of(residual, p.n, 0, m));
        REQUIRE(same_bits(together, rows_of(alone[static_cast<int>(e)], width, 0, m)));
      }
    }
  });
}

TEST_CASE("cuda small linear: the same bits for every number of rows") {
  check_invariance(Problem(64, 24, 200, true), 1);
}

TEST_CASE("cuda small linear: the same bits for every number of rows, k split") {
  check_invariance(Problem(64, 40, 1096, true), 7);
}

void check_norm(Problem p) {
  CAPTURE(p.n);
  CAPTURE(p.k);
  p.add_norm();
  for_each_schedule([&] {
    OnDevice d(p);
    for (const Epilogue e : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSiluMul}) {
      const std::vector<float> residual = random_floats(size_t(p.m) * p.n, 5);
      const std::vector<float> separate = run(d, e, 0, p.m, Norm::kSeparate, residual);
      const int width = e == Epilogue::kSiluMul ? p.n / 2 : p.n;
      for (int m = 1; m <= kMaxFusedNormRows; ++m) {
        CAPTURE(m);
        const std::vector<float> fused =
            run(d, e, 0, m, Norm::kFused, rows_of(residual, p.n, 0, m));
        REQUIRE(same_bits(fused, rows_of(separate, width, 0, m)));
      }
      // Rows on their own: one from the middle, and the last ones, behind which nothing is read.
      for (const auto& rows : {std::pair{5, 1}, std::pair{p.m - 5, 5}}) {
        const int first = rows.first;
        const int m = rows.second;
        CAPTURE(first);
        const std::vector<float> some =
            run(d, e, first, m, Norm::kFused, rows_of(residual, p.n, first, m));
        REQUIRE(same_bits(some, rows_of(separate, width, first, m)));
      }
    }
  });
}

TEST_CASE("cuda small linear: the same bits with a fused and a separate norm") {
  check_norm(Problem(20, 40, 264, true));
  check_norm(Problem(8, 16, 1032, false));
  Problem picked(9, 24, 136, false);
  picked.row_indices = {7, 7, 0, 8, 3, 2, 7, 1, 0};
  check_norm(picked);
}

TEST_CASE("cuda small linear: wide rows are normed by the product as far as they fit") {
  const auto fused = [](int n, int k) { return fused_norm_rows({nullptr, nullptr, n, k}); };
  CHECK(fused(8192, 4096) == 8);
  CHECK(fused(8192, 5120) == 7);
  CHECK(fused(1024, 8192) == 8);  // k is split in two
  CHECK(fused(8192, 60000) == 0);
  const int k = 12288;
  const int m = fused(8, k);
  REQUIRE(m > 0);
  REQUIRE(m < kMaxFusedNormRows);
  Problem p(8, 8, k, false);
  p.add_norm();
  p.row_indices = {7, 6, 5, 4, 3, 2, 1, 0};
  OnDevice d(p);
  for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kSiluMul}) {
    CHECK(same_bits(run(d, epilogue, 0, m, Norm::kFused), run(d, epilogue, 0, m, Norm::kSeparate)));
    CHECK_THROWS(run(d, epilogue, 0, m + 1, Norm::kFused));
  }
}

TEST_CASE("cuda small linear: what isn't finite stays in its row and column") {
  for (const int m : {3, 12, 20, 40}) {
    for (const int k : {72, 1064}) {
      CAPTURE(m);
      CAPTURE(k);
      Problem p(m, 24, k, false);
      for (int j = 0; j < p.n; ++j) {
        p.weight[size_t(j) * k + k - 1] = __float2bfloat16_rn(1 + j);
        p.weight[size_t(j) * k + 3] = __float2bfloat16_rn(-1 - j);
      }
      std::vector<float> clean;
      {
        OnDevice d(p);
        clean = run(d, Epilogue::kStore, 0, m);
      }
      p.x[k - 1] = __float2bfloat16_rn(NAN);           // row 0
      p.x[2 * k - 1] = __float2bfloat16_rn(INFINITY);  // row 1
      p.x[2 * k + 3] = __float2bfloat16_rn(INFINITY);  // row 2
      p.weight[size_t{5} * k + 8] = __float2bfloat16_rn(NAN);
      for_each_schedule([&] {
        OnDevice d(p);
        const std::vector<float> y = run(d, Epilogue::kStore, 0, m);
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < p.n; ++j) {
            CAPTURE(i);
            CAPTURE(j);
            const float value = y[size_t(i) * p.n + j];
            if (i == 0 || j == 5) {
              REQUIRE(std::isnan(value));
            } else if (i < 3) {
              REQUIRE(value == (i == 1 ? INFINITY : -INFINITY));
            } else {
              REQUIRE(value == clean[size_t(i) * p.n + j]);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("cuda small linear: repeated launches on one scratch memory") {
  const Problem p(13, 40, 1096, true);
  REQUIRE(small_linear_scratch_bytes({nullptr, nullptr, p.n, p.k}) > 0);
  for_each_schedule([&] {
    OnDevice d(p);
    const std::vector<float> first = run(d, Epilogue::kStore, 0, p.m);
    for (int i = 0; i < 3; ++i) {
      // Others with the same scratch memory in between.
      run(d, Epilogue::kSiluMul, 0, 13 - 6 * i);
      REQUIRE(same_bits(run(d, Epilogue::kStore, 0, p.m), first));
      REQUIRE(d.counters_are_zero());
    }
  });
}

TEST_CASE("cuda small linear: one scratch memory for several weights") {
  // The second has so many row tiles that its counters lie beyond the first's.
  const Problem small(64, 16, 1024, false);
  const Problem wide(1, 1056, 1024, false);
  OnDevice a(small);
  OnDevice b(wide);
  REQUIRE(b.scratch.size() > a.scratch.size());
  const std::vector<float> alone = run(b, Epilogue::kStore, 0, 1);
  SmallOperand x;
  x.x = a.x.data();
  WatchedOutput<float> out(size_t{64} * 16);
  launch_small_linear(out.data(), Epilogue::kStore, x, 64, a.weights, b.scratch.data(), nullptr);
  out.host();
  CHECK(same_bits(run(b, Epilogue::kStore, 0, 1), alone));
}

TEST_CASE("cuda small linear: nothing to do, and what can't be served") {
  const LinearWeights weights{nullptr, nullptr, 16, 64};
  const bf16* x = reinterpret_cast<const bf16*>(uintptr_t{256});
  const auto launch = [&](Epilogue e, const SmallOperand& operand, int m, LinearWeights w) {
    launch_small_linear(nullptr, e, operand, m, w, nullptr, nullptr);
  };
  CHECK(small_linear_scratch_bytes(weights) == 0);
  CHECK_NOTHROW(launch(Epilogue::kStore, {x, {}}, 0, weights));
  CHECK_NOTHROW(launch(Epilogue::kStore, {x, {}}, 4, {nullptr, nullptr, 0, 64}));
  CHECK_THROWS(launch(Epilogue::kStore, {x, {}}, kMaxSmallRows + 1, weights));
  CHECK_THROWS(launch(Epilogue::kStore, {nullptr, {}}, kMaxFusedNormRows + 1, weights));
  CHECK_THROWS(launch(Epilogue::kStore, {x, {}}, -1, weights));
  CHECK_THROWS(launch(Epilogue::kStore, {x, {}}, 1, {nullptr, nullptr, 16, 60}));
  CHECK_THROWS(launch(Epilogue::kSiluMul, {x, {}}, 1, {nullptr, nullptr, 15, 64}));
  CHECK_THROWS(launch(Epilogue::kStore, {x, {}}, 1, {nullptr, nullptr, 16, 4096}));  // no scratch
}

}  // namespace
}  // namespace llm
