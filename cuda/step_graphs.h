// Steps as CUDA graphs: a step of a shape that has come before is recorded, then replayed with
// nothing changed but what lies in the step's arrays. So the host starts a step with one call.
#pragma once

#include <compare>
#include <map>
#include <memory>

#include "cuda/rt.h"

namespace llm {

struct GraphDeleter {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphDeleter>;

/// All that a recorded step depends on and that isn't in the step's arrays, apart from where
/// memory lies: who allocates any calls clear().
struct StepKey {
  const void* model = nullptr;  // one address of it
  const void* cache = nullptr;
  int64_t rows = 0;
  int64_t max_blocks = 0;
  auto operator<=>(const StepKey&) const = default;
};

class StepGraphs {
 public:
  /// What is to be done with the operations of the step that has begun.
  enum class Mode {
    kRun,     // queue them: the first time, when workspaces grow to what they need
    kRecord,  // queue them too; the stream records them
    kReplay,  // nothing: they are recorded
  };

  /// Begins a step. Ends the recording of one that an error has cut off.
  Mode begin(const StepKey& key, cudaStream_t stream);
  /// All operations of the step have been asked for: starts what was recorded.
  void end(cudaStream_t stream);
  /// Forgets all.
  void clear() { graphs_.clear(); }

 private:
  std::map<StepKey, GraphExec> graphs_;  // null: was run once
  StepKey key_;
  Mode mode_ = Mode::kRun;
  bool is_recording_ = false;
};

}  // namespace llm
