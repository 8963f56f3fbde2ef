// CpuAttention against the double reference, and to the bit against itself however the rows are
// cut.
#include "backend/cpu/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/cpu_info.h"
#include "reference.h"

namespace llm {
namespace {

struct Case {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t tokens;
  DType kv_dtype;
  bool qk_norm;
};

/// One sequence's rows and everything that attention reads besides them.
struct Problem {
  explicit Problem(const Case& c, uint32_t seed = 1) : shape(c) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    const auto fill = [&](std::vector<float>& v, int64_t n, float scale) {
      v.resize(static_cast<size_t>(n));
      for (float& x : v) x = normal(random) * scale;
    };
    fill(qkv, c.tokens * width(), 1.0f);
    fill(q_weight, c.head_dim, 1.0f);
    fill(k_weight, c.head_dim, 1.0f);
    q_norm = {"q_norm", q_weight.data(), c.head_dim, 1e-6f};
    k_norm = {"k_norm", k_weight.data(), c.head_dim, 1e-6f};
    const int64_t half = c.head_dim / 2;
    for (int64_t i = 0; i < half; ++i) {
      inv_freq.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half)));
    }
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (double f : inv_freq) {
        cos.push_back(static_cast<float>(std::cos(static_cast<double>(t) * f)));
        sin.push_back(static_cast<float>(std::sin(static_cast<double>(t) * f)));
      }
    }
    // Blocks in an order of their own, so that a block table that isn't followed shows.
    num_blocks = (c.tokens + kKvBlockSize - 1) / kKvBlockSize;
    block_table.resize(static_cast<size_t>(num_blocks));
    std::iota(block_table.begin(), block_table.end(), 0);
    std::shuffle(block_table.begin(), block_table.end(), random);
  }

  int64_t width() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }

  AttentionParams params() const {
    AttentionParams p;
    p.num_attention_heads = shape.heads;
    p.num_key_value_heads = shape.kv_heads;
    p.head_dim = shape.head_dim;
    if (shape.qk_norm) {
      p.q_norm = &q_norm;
      p.k_norm = &k_norm;
    }
    p.rope_cos = cos.data();
    p.rope_sin = sin.data();
    p.max_positions = shape.tokens;
    return p;
  }

  /// Output [tokens, heads * head_dim] with the rows given in the chunks' sizes.
  std::vector<float> run(Isa isa, int threads, const std::vector<int64_t>& chunks) const {
    ThreadPool pool(threads);
    CpuAttention attention(pool, row_kernels(isa));
    KvCache cache({1, num_blocks, shape.kv_heads, shape.head_dim, shape.kv_dtype});
    std::vector<float> out(static_cast<size_t>(shape.tokens * shape.heads * shape.head_dim));
    int64_t done = 0;
    for (int64_t chunk : chunks) {
      std::vector<int32_t> positions(static_cast<size_t>(chunk));
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(done));
      std::vector<int32_t> slots;
      for (int32_t p : positions) {
        slots.push_back(block_table[static_cast<size_t>(p / kKvBlockSize)] * kKvBlockSize +
                        p % kKvBlockSize);
      }
      const int32_t start[] = {0, static_cast<int32_t>(chunk)};
      const int32_t length[] = {static_cast<int32_t>(done + chunk)};
      Batch batch;
      batch.input_ids = positions;  // their number counts, not their values
      batch.positions = positions;
      batch.slot_mapping = slots;
      batch.query_start_loc = start;
      batch.seq_lens = length;
      batch.block_tables = block_table;
      batch.max_blocks = num_blocks;
      attention.run(out.data() + done * shape.heads * shape.head_dim, qkv.data() + done * width(),
                    params(), cache, batch);
      done += chunk;
    }
    REQUIRE(done == shape.tokens);
    return out;
  }

  std::vector<double> expected() const {
    using reference::Vector;
    const int64_t dim = shape.head_dim;
    const auto head = [&](int64_t row, int64_t index, const std::vector<float>* weight) {
      const float* from = qkv.data() + row * width() + index * dim;
      Vector x(from, from + dim);
      if (weight == nullptr) return x;
      if (shape.qk_norm) x = reference::rms_norm(x, Vector(weight->begin(), weight->end()), 1e-6);
      return reference::rotate(x, static_cast<double>(row), inv_freq);
    };
    const auto stored = [&](Vector x) {
      if (bits_of(shape.kv_dtype) != 8) return x;
      const bool int8 = shape.kv_dtype == DType::kI8;
      double magnitude = 0;
      for (double value : x) magnitude = std::max(magnitude, std::abs(value));
      const double scale = magnitude / (int8 ? 127 : 448);
      for (double& value : x) {
        const float unit = static_cast<float>(value / scale);
        value = scale * (int8 ? std::nearbyint(unit) : to_float(to_f8e4m3(unit)));
      }
      return x;
    };
    std::vector<double> out;
    for (int64_t row = 0; row < shape.tokens; ++row) {
      for (int64_t h = 0; h < shape.heads; ++h) {
        const int64_t kv = h / (shape.heads / shape.kv_heads);
        std::vector<Vector> keys;
        std::vector<Vector> values;
        for (int64_t t = 0; t <= row; ++t) {
          keys.push_back(stored(head(t, shape.heads + kv, &k_weight)));
          values.push_back(stored(head(t, shape.heads + shape.kv_heads + kv, nullptr)));
        }
        const Vector o = reference::attend(head(row, h, &q_weight), keys, values);
        out.insert(out.end(), o.begin(), o.end());
      }
    }
    return out;
  }

  Case shape;
  std::vector<float> qkv, q_weight, k_weight, cos, sin;
  std::vector<double> inv_freq;
  std::vector<int32_t> block_table;
  int64_t num_blocks = 0;
  Norm q_norm, k_norm;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("attention equals the double reference") {
  const Case cases[] = {
      {4, 2, 32, 37, DType::kF32, true},    {4, 2, 32, 37, DType::kBF16, true},
      {2, 2, 128, 20, DType::kF32, false},  {5, 1, 64, 290, DType::kF32, true},
      {8, 1, 64, 270, DType::kBF16, false}, {6, 2, 24, 33, DType::kF32, true},
      {6, 2, 24, 33, DType::kBF16, true},   {3, 3, 80, 17, DType::kBF16, false},
      {2, 1, 6, 18, DType::kF32, true},     {40, 1, 16, 9, DType::kF32, false},
      {4, 2, 32, 37, DType::kI8, true},     {4, 2, 32, 37, DType::kF8E4M3, true},
      {8, 1, 64, 270, DType::kI8, false},   {8, 1, 64, 270, DType::kF8E4M3, false},
      {6, 2, 24, 33, DType::kI8, true},     {5, 1, 80, 533, DType::kF8E4M3, true},
  };
  for (const Case& c : cases) {
    const Problem problem(c);
    const std::vector<double> expected = problem.expected();
    for (Isa isa : supported_isas()) {
      CAPTURE(name_of(isa));
      CAPTURE(c.heads);
      CAPTURE(c.head_dim);
      CAPTURE(c.tokens);
      const std::vector<float> got = problem.run(isa, 2, {c.tokens});
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        worst = std::max(worst, std::abs(got[i] - expected[i]));
      }
      // |value| < 5. BF16 rounds q, k, v and p to 2^-9 each: an error of some 1e-2 in a score that
      // can reach 10 moves a weight by as much. F32: rounding of some hundred sums.
      CHECK(worst < (c.kv_dtype == DType::kF32 ? 2e-5 : 0.1));
    }
  }
}

TEST_CASE("attention gives the same bits for any cut of the rows and any thread count") {
  for (DType dtype : kKvDTypes) {
    const Problem problem({6, 2, 32, 600, dtype, true});
    for (Isa isa : supported_isas()) {
      CAPTURE(name_of(isa));
      const std::vector<float> whole = problem.run(isa, 1, {600});
      CHECK(same_bits(whole, problem.run(isa, 3, {600})));
      CHECK(same_bits(whole, problem.run(isa, 2, {1, 15, 16, 17, 255, 296})));
      CHECK(same_bits(whole, problem.run(isa, 5, std::vector<int64_t>(600, 1))));
    }
  }
}

TEST_CASE("attention passes a NaN on instead of hiding it") {
  for (DType dtype : kKvDTypes) {
    for (int64_t place : {0, 4, 6}) {  // head index within a row: q, k, v
      Problem problem({4, 2, 32, 20, dtype, false});
      problem.qkv[static_cast<size_t>(3 * problem.width() + place * 32 + 5)] = NAN;
      for (Isa isa : supported_isas()) {
        CAPTURE(name_of(isa));
        CAPTURE(place);
        const std::vector<float> out = problem.run(isa, 2, {20});
        const auto nans = std::count_if(out.begin(), out.end(), [](float x) { return x != x; });
        CHECK(nans > 0);
        // Rows before the broken one don't see it (a v in their own tile meets a weight of 0).
        if (place == 6) continue;
        CHECK(std::none_of(out.begin(), out.begin() + 3 * 4 * 32, [](float x) { return x != x; }));
      }
    }
  }
}

TEST_CASE("what an earlier use left in a KV block does no harm") {
  for (DType dtype : kKvDTypes) {
    const Problem problem({2, 1, 32, 21, dtype, false});
    for (Isa isa : supported_isas()) {
      ThreadPool pool(1);
      CpuAttention attention(pool, row_kernels(isa));
      KvCache cache({1, problem.num_blocks, 1, 32, dtype});
      std::memset(cache.layer(0).k, 0xff, static_cast<size_t>(cache.spec().total_bytes()));  // NaNs
      std::vector<int32_t> positions(21);
      std::iota(positions.begin(), positions.end(), 0);
      const int32_t start[] = {0, 21};
      const int32_t length[] = {21};
      std::vector<int32_t> table(static_cast<size_t>(problem.num_blocks));
      std::iota(table.begin(), table.end(), 0);
      Batch batch;
      batch.input_ids = batch.positions = batch.slot_mapping = positions;
      batch.query_start_loc = start;
      batch.seq_lens = length;
      batch.block_tables = table;
      batch.max_blocks = problem.num_blocks;
      std::vector<float> out(21 * 2 * 32);
      attention.run(out.data(), problem.qkv.data(), problem.params(), cache, batch);
      CHECK(same_bits(out, problem.run(isa, 1, {21})));
    }
  }
}

TEST_CASE("elements of 8 bits widen to BF16 without loss") {
  std::vector<std::byte> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  for (Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    std::vector<uint16_t> int8(256), fp8(256);
    row_kernels(isa).expand_i8(int8.data(), codes.data(), 256);
    row_kernels(isa).expand_f8e4m3(fp8.data(), codes.data(), 256);
    for (size_t i = 0; i < codes.size(); ++i) {
      CAPTURE(i);
      CHECK(to_float(BF16{int8[i]}) == static_cast<float>(static_cast<int8_t>(i)));
      if ((i & 0x7f) == 0x7f) continue;  // NaN, which is never stored
      CHECK(to_float(BF16{fp8[i]}) == to_float(F8E4M3{static_cast<uint8_t>(i)}));
    }
  }
}

}  // namespace llm
