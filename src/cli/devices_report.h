// What `llm inspect --devices` prints: where a model can run here.
#pragma once

#include <string>

#include "backend/cuda.h"

namespace llm {

/// The CPU, and every GPU with what it lacks.
std::string devices_table(const CudaSystem& cuda);
/// One JSON object: "cpu", "cuda" with "devices".
std::string devices_json(const CudaSystem& cuda);

}  // namespace llm
