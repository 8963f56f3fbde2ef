// config.json and generation_config.json: one text read as both.
#include <cmath>

#include "fuzz_input.h"
#include "io/generation_config.h"
#include "model/model_config.h"

namespace llm {
namespace {

/// What later code relies on without asking again.
void check_config(const ModelConfig& config) {
  const bool sound = config.vocab_size > 0 && config.hidden_size > 0 && config.head_dim > 0 &&
                     config.head_dim % 2 == 0 && config.num_key_value_heads > 0 &&
                     config.num_attention_heads % config.num_key_value_heads == 0 &&
                     config.num_parameters() > 0 && config.kv_size() > 0;
  if (!sound) std::abort();
  if (config.head_dim > 4096) return;  // frequencies take time in proportion to it
  for (const float frequency : rope_inv_freq(config.rope, config.head_dim)) {
    if (!std::isfinite(frequency)) std::abort();
  }
}

}  // namespace
}  // namespace llm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  const std::string_view text = text_of(data, size);
  may_refuse([&] { check_config(parse_model_config(text, "config.json")); });
  may_refuse([&] { parse_generation_config(text, "generation_config.json"); });
  return 0;
}
