#include "model/quant_config_parse.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/error.h"
#include "io/json.h"

namespace llm {
namespace {

constexpr int64_t kMaxGroup = int64_t{1} << 18;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// -1, or a group that packed columns can have.
std::optional<int64_t> group_size_of(const ConfigReader& config, const char* key) {
  const std::optional<int64_t> size = config.integer(key, -1, kMaxGroup);
  if (size && *size != -1 && (*size < kColumnUnit || *size % kColumnUnit != 0)) {
    config.refuse_value(key, *config.find(key), "-1 or a multiple of 8");
  }
  return size;
}

void parse_awq(const ConfigReader& config, QuantConfig& quant) {
  const char* bits = config.has("bits") ? "bits" : "w_bit";
  quant.bits = static_cast<int>(config.integer(bits, 4, 4).value_or(4));
  quant.group_size =
      group_size_of(config, config.has("group_size") ? "group_size" : "q_group_size");
  for (const char* key : {"version", "format"}) {
    const std::optional<std::string> version = config.string(key);
    if (version && lower(*version) != "gemm") {
      config.refuse_value(key, *config.find(key), "\"gemm\"; other layouts can't be loaded");
    }
  }
}

bool made_by_gptqmodel(const JsonValue& quantizer) {
  if (quantizer.is_string()) return lower(quantizer.string).find("gptqmodel") == 0;
  return std::any_of(quantizer.array.begin(), quantizer.array.end(), made_by_gptqmodel);
}

void parse_gptq(const ConfigReader& config, QuantConfig& quant) {
  const int64_t bits = config.integer("bits", 2, 8).value_or(4);
  if (bits > 4 && bits != 8) {
    config.refuse_value("bits", *config.find("bits"), "2, 3, 4 or 8");
  }
  const std::optional<int64_t> group = group_size_of(config, "group_size");
  const JsonValue* rules = config.find("dynamic");
  const bool has_rules = rules != nullptr && !(rules->is_object() && rules->object.empty());
  const bool with_head = config.boolean("lm_head").value_or(false);
  if (!has_rules && !with_head) {
    quant.bits = static_cast<int>(bits);
    quant.group_size = group.value_or(128);
  }
  const char* key = config.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = lower(config.string(key).value_or("gptq"));
  if (format != "gptq" && format != "gptq_v2") {
    config.refuse_value(key, *config.find(key), "\"gptq\" or \"gptq_v2\"");
  }
  const std::optional<std::string> pack_dtype = config.string("pack_dtype");
  if (pack_dtype && *pack_dtype != "int32") {
    config.refuse_value("pack_dtype", *config.find("pack_dtype"), "\"int32\"");
  }
  if (format == "gptq") {
    const JsonValue* meta = config.find("meta");
    const JsonValue* quantizer = meta == nullptr ? nullptr : meta->find_set("quantizer");
    quant.zero_rule = quantizer != nullptr && made_by_gptqmodel(*quantizer)
                          ? ZeroRule::kMinusOneInWord
                          : ZeroRule::kMinusOne;
  }
}

/// "block_structure" [rows, cols], or an old "128x128".
void parse_blocks(const ConfigReader& config, const char* key, QuantConfig& quant) {
  const JsonValue* blocks = config.find(key);
  if (blocks == nullptr) return;
  const auto fits = [](const JsonValue& v) {
    return v.is_integer() && v.integer >= kColumnUnit && v.integer <= kMaxGroup &&
           v.integer % kColumnUnit == 0;
  };
  if (blocks->is_string() && blocks->string == "128x128") return;
  if (!blocks->is_array() || blocks->array.size() != 2 || !fits(blocks->array[0]) ||
      !fits(blocks->array[1])) {
    config.refuse_value(key, *blocks, "two multiples of 8, as [128, 128]");
  }
  quant.block_rows = blocks->array[0].integer;
  quant.block_cols = blocks->array[1].integer;
}

void require_empty(const ConfigReader& config, const char* key) {
  const JsonValue* value = config.find(key);
  if (value == nullptr || (value->is_object() && value->object.empty())) return;
  config.refuse_value(key, *value, "nothing; such weights can't be loaded");
}

void require_known_format(const ConfigReader& config) {
  constexpr std::array<std::string_view, 6> kFormats = {"pack-quantized",  "int-quantized",
                                                        "float-quantized", "naive-quantized",
                                                        "dense",           "mixed-precision"};
  const std::optional<std::string> format = config.string("format");
  if (!format || std::find(kFormats.begin(), kFormats.end(), *format) != kFormats.end()) return;
  config.refuse_value("format", *config.find("format"),
                      "pack-quantized, int-quantized, float-quantized or naive-quantized");
}

void parse_group(const ConfigReader& group, bool is_only, QuantConfig& quant) {
  require_known_format(group);
  quant.rounds_activations = quant.rounds_activations || group.has("input_activations");
  const JsonValue* object = group.find("weights");
  if (object == nullptr) return;
  const ConfigReader weights(*object, group.origin() + ": weights");
  const std::string type = weights.string("type").value_or("int");
  if (type != "int" && type != "float") {
    weights.refuse_value("type", *weights.find("type"), "\"int\" or \"float\"");
  }
  const int64_t bits = weights.integer("num_bits", 1, 16).value_or(8);
  if ((bits != 4 && bits != 8) || (type == "float" && bits != 8)) {
    weights.refuse_value("num_bits", *weights.find("num_bits"),
                         type == "float" ? "8 (FP8)" : "4 or 8");
  }
  parse_blocks(weights, "block_structure", quant);
  const std::optional<int64_t> size = group_size_of(weights, "group_size");
  if (!is_only) return;
  quant.bits = static_cast<int>(bits);
  quant.group_size = size;
}

void parse_compressed_tensors(const ConfigReader& config, QuantConfig& quant) {
  require_known_format(config);
  require_empty(config, "sparsity_config");
  require_empty(config, "transform_config");
  const JsonValue* groups = config.find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->object.empty()) {
    refuse("{}: expected the object \"config_groups\" with at least one group", config.origin());
  }
  for (const JsonMember& group : groups->object) {
    const ConfigReader reader(group.value,
                              config.origin() + ": config_groups: " + printable(group.key));
    parse_group(reader, groups->object.size() == 1, quant);
  }
}

void parse_fp8(const ConfigReader& config, QuantConfig& quant) {
  quant.bits = 8;
  quant.rounds_activations = true;
  const std::optional<std::string> format = config.string("fmt");
  if (format && *format != "e4m3") config.refuse_value("fmt", *config.find("fmt"), "\"e4m3\"");
  const std::optional<std::string> scale = config.string("scale_fmt");
  if (scale && *scale != "float") {
    config.refuse_value("scale_fmt", *config.find("scale_fmt"), "scales of F32, F16 or BF16");
  }
  parse_blocks(config, "weight_block_size", quant);
}

}  // namespace

std::optional<QuantConfig> parse_quant_config(const ConfigReader& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const JsonValue* value = config.find(key);
    if (value == nullptr) continue;
    const ConfigReader reader(*value, config.origin() + ": " + key);
    const std::optional<std::string> name = reader.string("quant_method");
    const std::optional<QuantMethod> method =
        name ? quant_method_from_name(*name) : std::optional<QuantMethod>();
    if (!method) {
      refuse("{}: quant_method {} can't be loaded; expected awq, gptq, compressed-tensors or fp8",
             reader.origin(), name ? "\"" + printable(*name) + "\"" : "(missing)");
    }
    QuantConfig quant;
    quant.method = *method;
    switch (*method) {
      case QuantMethod::kAwq:
        parse_awq(reader, quant);
        break;
      case QuantMethod::kGptq:
        parse_gptq(reader, quant);
        break;
      case QuantMethod::kCompressedTensors:
        parse_compressed_tensors(reader, quant);
        break;
      case QuantMethod::kFp8:
        parse_fp8(reader, quant);
        break;
    }
    return quant;
  }
  return std::nullopt;
}

}  // namespace llm
