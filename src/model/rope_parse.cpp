#include "model/rope_parse.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace llm {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxPositions = 1e9;

RopeType parse_type(const ConfigReader& rope) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.string(key).value_or("default");
  if (type == "default") return RopeType::kDefault;
  if (type == "linear") return RopeType::kLinear;
  if (type == "llama3") return RopeType::kLlama3;
  if (type == "yarn") return RopeType::kYarn;
  refuse("{}: \"{}\" is \"{}\", expected \"default\", \"linear\", \"llama3\" or \"yarn\"",
         rope.origin(), key, printable(type));
}

double required_number(const ConfigReader& rope, std::string_view key, double min, double max) {
  const std::optional<double> value = rope.number(key, min, max);
  if (!value) refuse("{}: the key \"{}\" is missing", rope.origin(), key);
  return *value;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const ConfigReader& rope, double factor) {
  if (const auto given = rope.number("attention_factor", 1e-6, kMaxFactor)) return *given;
  const auto mscale = rope.number("mscale", 0, kMaxFactor);
  const auto mscale_all_dim = rope.number("mscale_all_dim", 0, kMaxFactor);
  // Zero counts as not given, as the reference has it.
  if (mscale.value_or(0) != 0 && mscale_all_dim.value_or(0) != 0) {
    return yarn_mscale(factor, *mscale) / yarn_mscale(factor, *mscale_all_dim);
  }
  return yarn_mscale(factor, 1.0);
}

}  // namespace

RopeConfig parse_rope(const ConfigReader& config, int64_t max_position_embeddings) {
  RopeConfig c;
  c.theta = config.number("rope_theta", 1, kMaxTheta).value_or(10000.0);
  // Where both are set the older spelling wins, unless it is empty: transformers 5 has it so.
  const char* key = "rope_scaling";
  const JsonValue* object = config.find(key);
  if (object == nullptr || (object->is_object() && object->object.empty())) {
    key = "rope_parameters";
    object = config.find(key);
  }
  if (object == nullptr) return c;

  const ConfigReader rope(*object, config.origin() + ": \"" + key + "\"");
  for (const auto& [name, value] : object->object) {
    // transformers 5 can hold one set of parameters per kind of layer.
    if (value.is_object()) rope.refuse_value(printable(name), value, "one setting for all layers");
  }
  c.type = parse_type(rope);
  c.theta = rope.number("rope_theta", 1, kMaxTheta).value_or(c.theta);
  if (const JsonValue* rotary = rope.find("partial_rotary_factor");
      rotary != nullptr && !(rotary->is_number() && rotary->number == 1.0)) {
    rope.refuse_value("partial_rotary_factor", *rotary, "1");
  }
  if (c.type == RopeType::kDefault) return c;

  c.factor = required_number(rope, "factor", 1, kMaxFactor);
  if (c.type == RopeType::kLlama3) {
    c.original_max_position_embeddings =
        required_number(rope, "original_max_position_embeddings", 1, kMaxPositions);
    c.low_freq_factor = required_number(rope, "low_freq_factor", 1e-3, kMaxFactor);
    c.high_freq_factor = required_number(rope, "high_freq_factor", 1e-3, kMaxFactor);
    if (c.high_freq_factor <= c.low_freq_factor) {
      refuse("{}: \"high_freq_factor\" {} is not above \"low_freq_factor\" {}", rope.origin(),
             c.high_freq_factor, c.low_freq_factor);
    }
  }
  if (c.type == RopeType::kYarn) {
    if (c.theta <= 1)
      refuse("{}: yarn needs a rope_theta above 1, found {}", rope.origin(), c.theta);
    c.original_max_position_embeddings =
        rope.number("original_max_position_embeddings", 1, kMaxPositions)
            .value_or(static_cast<double>(max_position_embeddings));
    c.beta_fast = rope.number("beta_fast", 1e-3, kMaxFactor).value_or(32.0);
    c.beta_slow = rope.number("beta_slow", 1e-3, kMaxFactor).value_or(1.0);
    c.truncate = rope.boolean("truncate").value_or(true);
    c.attention_factor = yarn_attention_factor(rope, c.factor);
  }
  return c;
}

}  // namespace llm
