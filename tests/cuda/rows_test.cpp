// Kernels over rows against double: every width from 8 up, unusual indices, NaN.
#include "linear_reference.h"

namespace llm {
namespace {

constexpr int kWidths[] = {8, 40, 256, 1024, 1032, 2056, 5120};

TEST_CASE("cuda rows: embed") {
  for (const int width : {8, 256, 1032}) {
    CAPTURE(width);
    const std::vector<bf16> table = random_bf16(size_t{7} * width, 1);
    const std::vector<int32_t> ids = {6, 0, 3, 3, 1};
    std::vector<float> expected;
    for (const int32_t id : ids) {
      for (const float v : to_floats(rows_of(table, width, id, 1))) expected.push_back(v);
    }
    for_each_schedule([&] {
      const DeviceArray<bf16> device_table(table);
      // Two of them are known to the device alone.
      const DeviceArray<int32_t> given(std::vector<int32_t>{6, ~1, 3, ~0, 1});
      const DeviceArray<SampledId> sampled(std::vector<SampledId>{{3}, {0}});
      WatchedOutput<int32_t> known(ids.size());
      WatchedOutput<float> hidden(ids.size() * width);
      launch_embed(hidden.data(), device_table.data(), {given.data(), sampled.data(), known.data()},
                   static_cast<int>(ids.size()), width, nullptr);
      CHECK(hidden.host() == expected);
      CHECK(known.host() == ids);
    });
  }
}

std::vector<bf16> run_rms_norm(const std::vector<float>& hidden, const std::vector<float>& weight,
                               const std::vector<int32_t>& indices, int num_rows, float eps) {
  const int width = static_cast<int>(weight.size());
  const DeviceArray<float> device_hidden(hidden);
  const DeviceArray<float> device_weight(weight);
  const DeviceArray<int32_t> device_indices(indices.empty() ? std::vector<int32_t>{0} : indices);
  WatchedOutput<bf16> out(size_t(num_rows) * width);
  NormedRows in;
  in.hidden = device_hidden.data();
  if (!indices.empty()) in.row_indices = device_indices.data();
  in.weight = device_weight.data();
  in.eps = eps;
  launch_rms_norm(out.data(), in, num_rows, width, nullptr);
  return out.host();
}

TEST_CASE("cuda rows: rms_norm") {
  for (const int width : kWidths) {
    for (const float scale : {1e-4f, 1.0f, 300.0f}) {
      CAPTURE(width);
      CAPTURE(scale);
      const std::vector<float> hidden = random_floats(size_t{4} * width, 2, scale);
      const std::vector<float> weight = random_floats(width, 3);
      const std::vector<int32_t> indices = {3, 1, 1, 0, 2, 3};
      std::vector<Approx> expected;
      for (const int32_t row : indices) {
        for (const Approx& y :
             expected_norm(&hidden[size_t(row) * width], weight.data(), width, 1e-6f)) {
          expected.push_back(y);
        }
      }
      for_each_schedule([&] {
        const std::vector<bf16> out = run_rms_norm(hidden, weight, indices, 6, 1e-6f);
        CHECK(count_wrong(to_floats(out), expected) == 0);
        // Without indices, and whatever other rows there are, a row has the same bits.
        const std::vector<bf16> plain = run_rms_norm(hidden, weight, {}, 2, 1e-6f);
        CHECK(same_bits(rows_of(plain, width, 0, 1), rows_of(out, width, 3, 1)));
        CHECK(same_bits(rows_of(plain, width, 1, 1), rows_of(out, width, 1, 1)));
      });
    }
  }
}

TEST_CASE("cuda rows: rms_norm of rows that aren't finite") {
  constexpr int kWidth = 264;
  std::vector<float> hidden = random_floats(3 * kWidth, 4);
  hidden[kWidth + 263] = NAN;
  hidden[2 * kWidth + 5] = INFINITY;  // its scale is 0, so the others become 0 and itself NaN
  const std::vector<float> weight(kWidth, 1.0f);
  for_each_schedule([&] {
    const std::vector<float> out = to_floats(run_rms_norm(hidden, weight, {}, 3, 1e-5f));
    for (int i = 0; i < kWidth; ++i) {
      REQUIRE(std::isfinite(out[i]));
      REQUIRE(std::isnan(out[kWidth + i]));
      REQUIRE((i == 5 ? std::isnan(out[2 * kWidth + i]) : out[2 * kWidth + i] == 0));
    }
  });
}

TEST_CASE("cuda rows: silu_mul") {
  for (const int width : {8, 72, 768, 1032}) {
    CAPTURE(width);
    constexpr int kRows = 3;
    std::vector<float> gate_up = random_floats(size_t{kRows} * 2 * width, 5, 4);
    gate_up[0] = -200;  // silu is 0 in float32, though exp(200) is infinite
    gate_up[1] = 200;
    gate_up[2] = NAN;
    gate_up[width + 3] = INFINITY;
    gate_up[2 * width] = -87.5f;
    std::vector<Approx> expected;
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < width; ++i) {
        const float* row = &gate_up[size_t(r) * 2 * width];
        expected.push_back(expected_silu_mul({row[i], 0}, {row[width + i], 0}));
      }
    }
    for_each_schedule([&] {
      const DeviceArray<float> in(gate_up);
      WatchedOutput<bf16> out(size_t{kRows} * width);
      launch_silu_mul(out.data(), in.data(), kRows, width, nullptr);
      CHECK(count_wrong(to_floats(out.host()), expected) == 0);
    });
  }
}

TEST_CASE("cuda rows: add_bias") {
  for (const int n : {1, 13, 256, 1027}) {
    CAPTURE(n);
    constexpr int kRows = 3;
    const std::vector<float> y = random_floats(size_t{kRows} * n, 6);
    const std::vector<float> bias = random_floats(n, 7);
    std::vector<float> expected;
    for (size_t i = 0; i < y.size(); ++i) expected.push_back(y[i] + bias[i % n]);
    for_each_schedule([&] {
      const DeviceArray<float> device_bias(bias);
      WatchedOutput<float> out(y);
      launch_add_bias(out.data(), device_bias.data(), kRows, n, nullptr);
      CHECK(out.host() == expected);
    });
  }
}

TEST_CASE("cuda rows: more rows than a grid has") {
  constexpr int kRows = 65535 + 3;
  constexpr int kWidth = 8;
  const std::vector<float> y = random_floats(size_t{kRows} * kWidth, 8);
  const std::vector<float> bias = random_floats(kWidth, 9);
  std::vector<float> expected;
  for (size_t i = 0; i < y.size(); ++i) expected.push_back(y[i] + bias[i % kWidth]);
  const DeviceArray<float> device_bias(bias);
  WatchedOutput<float> out(y);
  launch_add_bias(out.data(), device_bias.data(), kRows, kWidth, nullptr);
  CHECK(out.host() == expected);
}

TEST_CASE("cuda rows: no rows, and what can't be served") {
  CHECK_NOTHROW(launch_embed(nullptr, nullptr, {}, 0, 8, nullptr));
  CHECK_NOTHROW(launch_rms_norm(nullptr, {}, 0, 8, nullptr));
  CHECK_NOTHROW(launch_silu_mul(nullptr, nullptr, 0, 8, nullptr));
  CHECK_NOTHROW(launch_add_bias(nullptr, nullptr, 0, 8, nullptr));
  CHECK_THROWS(launch_embed(nullptr, nullptr, {}, 1, 12, nullptr));
  CHECK_THROWS(launch_rms_norm(nullptr, {}, 1, 12, nullptr));
  CHECK_THROWS(launch_silu_mul(nullptr, nullptr, 1, 12, nullptr));
  CHECK_THROWS(launch_add_bias(nullptr, nullptr, -1, 8, nullptr));
}

}  // namespace
}  // namespace llm
