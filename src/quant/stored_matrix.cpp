#include "quant/stored_matrix.h"

#include "base/error.h"

namespace llm {

std::vector<ConstTensor> StoredMatrix::tensors() const {
  std::vector<ConstTensor> all;
  for (const ConstTensor& tensor : {codes, scales, zeros, g_idx}) {
    if (tensor.data != nullptr) all.push_back(tensor);
  }
  return all;
}

PackedMatrix pack(const StoredMatrix&, std::byte*, ThreadPool&) { bug("pack", "no layout yet"); }

}  // namespace llm
