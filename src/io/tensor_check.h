// Looks at every value of a tensor.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "io/safetensors.h"

namespace llm {

struct NonFiniteCount {
  int64_t nan = 0;
  int64_t inf = 0;
};

/// Reads every byte of the tensor and counts NaNs and infinities; integers have none.
NonFiniteCount count_non_finite(const SafetensorsFile::Entry& entry);

}  // namespace llm
