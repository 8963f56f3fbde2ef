// Products by cuBLASLt against whole numbers, whose sums are exact in any order.
#include "cuda/gemm_cublaslt.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "cuda_test.h"
#include "test_data.h"

namespace llm {
namespace {

std::vector<int> small_numbers(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> numbers(size);
  for (int& n : numbers) n = static_cast<int>(random() % 9) - 4;
  return numbers;
}

std::vector<bf16> as_bf16(const std::vector<int>& numbers) {
  std::vector<bf16> values;
  for (const int n : numbers) values.push_back(__float2bfloat16_rn(static_cast<float>(n)));
  return values;
}

}  // namespace

TEST_CASE("cuda cublaslt: stored and added products, rows at any offset") {
  const auto gemm = CublasLtGemm::create();
  if (gemm == nullptr) {
    skip_test("cuda cublaslt", "cuBLASLt", true);
    return;
  }
  const int n = 136;
  const int k = 72;
  const std::vector<int> weight = small_numbers(size_t{n} * k, 1);
  const DeviceArray<bf16> w(as_bf16(weight));
  for (const int m : {1, 2, 3, 17, 64, 129}) {
    for (const int offset : {0, 3}) {  // rows before the operand's first
      CAPTURE(m);
      CAPTURE(offset);
      const size_t rows = static_cast<size_t>(m + offset);
      const std::vector<int> x = small_numbers(rows * k, 2);
      const std::vector<int> before = small_numbers(rows * n, 3);
      const DeviceArray<bf16> operand(as_bf16(x));
      for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd}) {
        DeviceArray<float> out(std::vector<float>(before.begin(), before.end()));
        REQUIRE(gemm->run(out.data() + offset * n, epilogue, operand.data() + offset * k, m,
                          {w.data(), nullptr, n, k}, nullptr));
        const std::vector<float> got = out.host();
        int wrong = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const size_t row = i / n;
          int expected = before[i];
          if (row >= static_cast<size_t>(offset)) {
            if (epilogue == Epilogue::kStore) expected = 0;
            for (int j = 0; j < k; ++j) expected += x[row * k + j] * weight[i % n * k + j];
          }
          wrong += got[i] != static_cast<float>(expected);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace llm
