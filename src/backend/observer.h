// What the operations report about themselves: the one source of stage tables, byte and FLOP
// counts, shape traces and dumps, the same on every backend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace llm {

/// One module inside a stage as transformers shows it, flat rows [T, ...].
struct ModuleShape {
  std::string name;  // "q_proj"
  Shape input;
  Shape output;
};

/// One operation of a step.
struct Stage {
  std::string name;    // "norm+qkv_proj"
  int64_t layer = -1;  // -1 outside the layers
  int64_t num_tokens = 0;
  int64_t num_decode_rows = 0;
  std::vector<ModuleShape> modules;  // in execution order
  double flop = 0;                   // 2 per multiply-add of the matrix products and attention
  double weight_bytes = 0;           // distinct weights read
  double activation_bytes = 0;       // operands and results, as the backend stores them
  double kv_bytes = 0;               // cache read and written
};

/// Receives each stage of a step. Outputs, in the backend's memory, are complete when end() is
/// called.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Stage& stage) = 0;
  virtual void end(const Stage& stage, ConstTensor output) = 0;
};

}  // namespace llm
