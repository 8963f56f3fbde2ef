// Every product of Qwen3, few rows.
#include <algorithm>

#include "cuda/measure/products.h"
#include "cuda/measure/sections.h"

namespace llm::measure {
namespace {

std::vector<std::string> models(bool small) {
  if (small) return {"qwen3-0.6b"};
  return {"qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "qwen3-14b", "qwen3-32b"};
}

}  // namespace

void measure_gemv(Lab& lab) {
  int64_t weight_bytes = 0;
  int64_t most_n = 0;
  int64_t most_k = 0;
  for (const std::string& model : models(lab.small())) {
    for (const ProductShape& shape : products_of(config_of(model, lab.small()))) {
      weight_bytes =
          std::max(weight_bytes, lab.copies(shape.weight_bytes()) * shape.weight_bytes());
      most_n = std::max<int64_t>(most_n, shape.n);
      most_k = std::max<int64_t>(most_k, shape.k);
    }
  }
  if (!lab.has_room(weight_bytes, "products of few rows")) return;
  Products products(lab, weight_bytes, kMaxSmallRows * most_k, kMaxSmallRows * most_n);
  for (const std::string& model : models(lab.small())) {
    for (const ProductShape& shape : products_of(config_of(model, lab.small()))) {
      for (const int m : lab.small() ? std::vector{1, 64} : std::vector{1, 2, 4, 8, 16, 32, 64}) {
        products.time_small(model, shape, m);
        products.time_cublaslt(model, shape, m, Unit::kGbs);
      }
    }
  }
}

}  // namespace llm::measure
