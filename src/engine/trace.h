// The shapes of one prefill and one decode step, gathered from the backend's stages.
#pragma once

#include <string>
#include <vector>

#include "backend/observer.h"

namespace llm {

struct TracedStage {
  Stage stage;
  Shape output;
};

/// Keeps the stages of layer 0 and outside the layers of the first prefill step and the first
/// decode step that it sees. Both must be of one sequence, the prompt in one piece.
class ShapeTrace : public Observer {
 public:
  void begin(const Stage& stage) override;
  void end(const Stage& stage, ConstTensor output) override;

  /// The modules as transformers shows them, [1, T, ...], and the cache: a table with one line a
  /// module. Steps that didn't happen show "-".
  std::string module_table() const;

  /// The engine's own stages on flat rows, [T, ...].
  std::string stage_table() const;

 private:
  struct Step {
    std::vector<TracedStage> stages;
    bool complete = false;  // later steps of the same kind are not kept
  };

  Step prefill_;
  Step decode_;
  Step* current_ = nullptr;
};

}  // namespace llm
