// The matrix product for many rows against double: ragged tiles, edges, rows that don't depend on
// each other.
#include "linear_reference.h"

namespace llm {
namespace {

struct Problem {
  int m;
  int n;
  int k;
  std::vector<bf16> x;
  std::vector<bf16> weight;
  std::vector<float> bias;
  std::vector<float> residual;

  Problem(int m_, int n_, int k_)
      : m(m_),
        n(n_),
        k(k_),
        x(random_bf16(size_t(m) * k, 1)),
        weight(random_bf16(size_t(n) * k, 2)),
        bias(random_floats(n, 3)),
        residual(random_floats(size_t(m) * n, 4, 10)) {}
};

/// The outputs of the first m rows.
std::vector<float> run(const Problem& p, Epilogue epilogue, int m, bool has_bias) {
  const DeviceArray<bf16> x(p.x);
  const DeviceArray<bf16> weight(p.weight);
  const DeviceArray<float> bias(p.bias);
  const LinearWeights weights{weight.data(), has_bias ? bias.data() : nullptr, p.n, p.k};
  WatchedOutput<float> out(epilogue == Epilogue::kAdd ? rows_of(p.residual, p.n, 0, m)
                                                      : std::vector<float>(size_t(m) * p.n, NAN));
  launch_gemm(out.data(), epilogue, x.data(), m, weights, nullptr);
  return out.host();
}

void check_values(const Problem& p) {
  CAPTURE(p.m);
  CAPTURE(p.n);
  CAPTURE(p.k);
  std::vector<Approx> stored;
  std::vector<Approx> added;
  for (int i = 0; i < p.m; ++i) {
    for (int j = 0; j < p.n; ++j) {
      const bf16* x = &p.x[size_t(i) * p.k];
      const bf16* w = &p.weight[size_t(j) * p.k];
      stored.push_back(expected_sum(x, w, p.k, 0));
      const Approx y = expected_sum(x, w, p.k, p.bias[j]);
      const double old = p.residual[added.size()];
      added.push_back({y.value + old, y.bound + 2 * kFloatEpsilon * std::fabs(old)});
    }
  }
  for_each_schedule([&] {
    CHECK(count_wrong(run(p, Epilogue::kStore, p.m, false), stored) == 0);
    CHECK(count_wrong(run(p, Epilogue::kAdd, p.m, true), added) == 0);
  });
}

TEST_CASE("cuda gemm: ragged shapes") {
  const int shapes[][3] = {{1, 8, 8},     {3, 24, 40},   {64, 64, 64},  {65, 66, 72},
                           {17, 21, 136}, {100, 3, 264}, {130, 70, 200}};
  for (const auto& [m, n, k] : shapes) check_values(Problem(m, n, k));
}

TEST_CASE("cuda gemm: widths of models") {
  const int shapes[][3] = {{20, 512, 256}, {70, 256, 768}, {33, 64, 1024}};
  for (const auto& [m, n, k] : shapes) check_values(Problem(m, n, k));
}

/// Enough tiles of 128 x 128 that they are used: rows and columns end within a tile.
Problem with_large_tiles() { return Problem(250, 64 * 128 - 75, 40); }

TEST_CASE("cuda gemm: large tiles") {
  const Problem p = with_large_tiles();
  std::vector<Approx> expected;
  for (int i = 0; i < p.m; ++i) {
    for (int j = 0; j < p.n; ++j) {
      expected.push_back(
          expected_sum(&p.x[size_t(i) * p.k], &p.weight[size_t(j) * p.k], p.k, p.bias[j]));
    }
  }
  CHECK(count_wrong(run(p, Epilogue::kStore, p.m, true), expected) == 0);
}

TEST_CASE("cuda gemm: the same bits for every number of rows") {
  const Problem p(130, 40, 328);
  for_each_schedule([&] {
    const std::vector<float> all = run(p, Epilogue::kAdd, p.m, true);
    for (const int m : {1, 2, 15, 16, 63, 64, 65, 129}) {
      CAPTURE(m);
      CHECK(same_bits(run(p, Epilogue::kAdd, m, true), rows_of(all, p.n, 0, m)));
    }
  });
  const Problem large = with_large_tiles();
  const std::vector<float> all = run(large, Epilogue::kStore, large.m, false);
  CHECK(same_bits(run(large, Epilogue::kStore, 5, false), rows_of(all, large.n, 0, 5)));
}

TEST_CASE("cuda gemm: what isn't finite stays in its row and column") {
  constexpr int kM = 70;
  constexpr int kK = 72;
  Problem p(kM, 24, kK);
  for (int j = 0; j < p.n; ++j) p.weight[size_t(j) * kK + kK - 1] = __float2bfloat16_rn(1 + j);
  const std::vector<float> clean = run(p, Epilogue::kStore, kM, true);
  p.x[kK - 1] = __float2bfloat16_rn(NAN);           // row 0
  p.x[2 * kK - 1] = __float2bfloat16_rn(INFINITY);  // row 1
  p.weight[size_t{5} * kK + 8] = __float2bfloat16_rn(NAN);
  for_each_schedule([&] {
    const std::vector<float> y = run(p, Epilogue::kStore, kM, true);
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < p.n; ++j) {
        CAPTURE(i);
        CAPTURE(j);
        const float value = y[size_t(i) * p.n + j];
        if (i == 0 || j == 5) {
          REQUIRE(std::isnan(value));
        } else {
          REQUIRE(value == (i == 1 ? INFINITY : clean[size_t(i) * p.n + j]));
        }
      }
    }
  });
}

TEST_CASE("cuda gemm: nothing to do, and what can't be served") {
  const LinearWeights weights{nullptr, nullptr, 16, 64};
  CHECK_NOTHROW(launch_gemm(nullptr, Epilogue::kStore, nullptr, 0, weights, nullptr));
  CHECK_NOTHROW(
      launch_gemm(nullptr, Epilogue::kStore, nullptr, 4, {nullptr, nullptr, 0, 64}, nullptr));
  CHECK_THROWS(launch_gemm(nullptr, Epilogue::kSiluMul, nullptr, 4, weights, nullptr));
  CHECK_THROWS(launch_gemm(nullptr, Epilogue::kStore, nullptr, -1, weights, nullptr));
  CHECK_THROWS(
      launch_gemm(nullptr, Epilogue::kStore, nullptr, 4, {nullptr, nullptr, 16, 60}, nullptr));
}

}  // namespace
}  // namespace llm
