#include "engine/stage_times.h"

namespace llm {

void StageTimes::begin(const Stage& stage) {
  if (stage.name == "embed_tokens") {  // a step begins; it also decides for its `sample`
    in_decode_ = stage.num_decode_rows == stage.num_tokens;
    num_decode_steps_ += in_decode_;
  }
  began_ = Clock::now();
}

void StageTimes::end(const Stage& stage, ConstTensor) {
  const std::chrono::duration<double> passed = Clock::now() - began_;
  StageTotal& total = total_of(stage.name);
  ++total.calls;
  total.seconds += passed.count();
  total.flop += stage.flop;
  total.stream_bytes += stage.weight_bytes + stage.kv_bytes;
  total.bytes += stage.weight_bytes + stage.kv_bytes + stage.activation_bytes;
}

StageTotal& StageTimes::total_of(const std::string& name) {
  for (StageTotal& total : totals_) {
    if (total.decode == in_decode_ && total.name == name) return total;
  }
  StageTotal& added = totals_.emplace_back();
  added.decode = in_decode_;
  added.name = name;
  return added;
}

}  // namespace llm
