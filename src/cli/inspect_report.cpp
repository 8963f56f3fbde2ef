#include "cli/inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/size_text.h"
#include "cli/counted.h"
#include "cli/version.h"
#include "engine/session.h"
#include "io/json.h"

namespace llm {
namespace {

/// "awq: 14 matrices 4-bit, groups of 64; plain: lm_head and 3 more".
std::string quantization_text(const InspectReport& report) {
  std::string text(name_of(report.config->quantization->method));
  const char* separator = ": ";
  for (const auto& [type, count] : report.quantized_types) {
    text += fmt::format("{}{} matrices {}", separator, count, type);
    separator = "; ";
  }
  if (report.plain_modules.empty()) return text;
  text += "; plain: " + report.plain_modules.front();
  const int64_t others = std::ssize(report.plain_modules) - 1;
  if (others > 0) text += fmt::format(" and {} more (all with --json)", others);
  return text;
}

using Json = nlohmann::ordered_json;

/// The type of most of the bytes.
std::string_view main_dtype(const InspectReport& report) {
  std::map<DType, int64_t> bytes;
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) bytes[entry.dtype] += entry.bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? std::string_view("none") : name_of(most->first);
}

int64_t num_tensors(const InspectReport& report) {
  int64_t count = 0;
  for (const SafetensorsFile& file : *report.files) {
    count += static_cast<int64_t>(file.entries().size());
  }
  return count;
}

int64_t num_elements(const InspectReport& report) {
  int64_t count = 0;
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) {
      count += entry.bytes * 8 / bits_of(entry.dtype);
    }
  }
  return count;
}

std::string_view name_of(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kLlama3:
      return "llama3";
    case RopeType::kYarn:
      return "yarn";
  }
  return "";
}

std::string rope_text(const RopeConfig& rope) {
  std::string text = fmt::format("{}, rope_theta {}", name_of(rope.type), rope.theta);
  if (rope.type != RopeType::kDefault) text += fmt::format(", factor {}", rope.factor);
  if (rope.original_max_position_embeddings > 0) {
    text +=
        fmt::format(", original_max_position_embeddings {}", rope.original_max_position_embeddings);
  }
  return text;
}

std::string shape_text(const std::vector<int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

void append_line(std::string& out, std::string_view key, const std::string& value) {
  out += fmt::format("{:<24} {}\n", key, value);
}

void append_config(std::string& out, const InspectReport& report) {
  const ModelConfig& c = *report.config;
  append_line(out, "architecture", std::string(name_of(c.architecture)));
  append_line(out, "parameters",
              fmt::format("{} ({:.2f} billion)", c.num_parameters(),
                          static_cast<double>(c.num_parameters()) / 1e9));
  const std::pair<std::string_view, int64_t> sizes[] = {
      {"vocab_size", c.vocab_size},
      {"hidden_size", c.hidden_size},
      {"intermediate_size", c.intermediate_size},
      {"num_hidden_layers", c.num_hidden_layers},
      {"num_attention_heads", c.num_attention_heads},
      {"num_key_value_heads", c.num_key_value_heads},
      {"head_dim", c.head_dim},
      {"max_position_embeddings", c.max_position_embeddings}};
  for (const auto& [key, value] : sizes) append_line(out, key, std::to_string(value));
  append_line(out, "rms_norm_eps", fmt::format("{}", c.rms_norm_eps));
  append_line(out, "rope", rope_text(c.rope));
  append_line(out, "tie_word_embeddings", c.tie_word_embeddings ? "true" : "false");
  append_line(out, "quantization",
              c.quantization ? quantization_text(report) : std::string("none"));
  const int64_t kv = kv_bytes_per_token(c, DType::kBF16);
  append_line(out, "KV cache",
              fmt::format("{} bytes per token in BF16 ({} in FP8 or INT8), {} at {} positions", kv,
                          kv_bytes_per_token(c, DType::kI8),
                          size_text(kv * c.max_position_embeddings), c.max_position_embeddings));
  append_line(out, "eos_token_id",
              report.eos_token_ids.empty()
                  ? "none"
                  : fmt::format("{}", fmt::join(report.eos_token_ids, ", ")));
  append_line(out, "tokenizer",
              report.tokenizer_ids ? fmt::format("{} ids", *report.tokenizer_ids)
                                   : "none (no tokenizer.json)");
}

void append_tensors(std::string& out, const InspectReport& report) {
  size_t width = 4;
  size_t shape_width = 5;
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) {
      width = std::max(width, printable(name).size());
      shape_width = std::max(shape_width, shape_text(entry.dims).size());
    }
  }
  out += fmt::format("\n{:<{}}  {:<8}  {:<{}}  {:>12}\n", "name", width, "dtype", "shape",
                     shape_width, "bytes");
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) {
      out += fmt::format("{:<{}}  {:<8}  {:<{}}  {:>12}\n", printable(name), width,
                         name_of(entry.dtype), shape_text(entry.dims), shape_width, entry.bytes);
    }
  }
}

Json config_json(const ModelConfig& c) {
  return {{"hidden_size", c.hidden_size},
          {"intermediate_size", c.intermediate_size},
          {"num_hidden_layers", c.num_hidden_layers},
          {"num_attention_heads", c.num_attention_heads},
          {"num_key_value_heads", c.num_key_value_heads},
          {"head_dim", c.head_dim},
          {"max_position_embeddings", c.max_position_embeddings},
          {"rms_norm_eps", c.rms_norm_eps},
          {"rope_type", name_of(c.rope.type)},
          {"rope_theta", c.rope.theta},
          {"rope_factor", c.rope.factor},
          {"tie_word_embeddings", c.tie_word_embeddings}};
}

Json tensors_json(const InspectReport& report) {
  Json tensors = Json::array();
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) {
      tensors.push_back({{"name", name},
                         {"dtype", name_of(entry.dtype)},
                         {"shape", entry.dims},
                         {"bytes", entry.bytes},
                         {"file", file.path().filename().string()}});
    }
  }
  return tensors;
}

}  // namespace

int64_t total_bytes(const InspectReport& report) {
  int64_t bytes = 0;
  for (const SafetensorsFile& file : *report.files) {
    for (const auto& [name, entry] : file.entries()) bytes += entry.bytes;
  }
  return bytes;
}

std::string inspect_table(const InspectReport& report) {
  std::string out;
  append_line(out, "model", report.name);
  if (report.config) append_config(out, report);
  append_line(out, "weights",
              fmt::format("{} in {} tensors, mostly {}, {} file{}", size_text(total_bytes(report)),
                          num_tensors(report), main_dtype(report), report.files->size(),
                          report.files->size() == 1 ? "" : "s"));
  append_tensors(out, report);
  if (!report.checked) return out;
  out += "\n";
  for (const std::string& finding : report.findings) out += "finding: " + finding + "\n";
  out += fmt::format("checked {} tensors, {} bytes: {}\n", num_tensors(report), total_bytes(report),
                     report.findings.empty()
                         ? "no findings"
                         : counted(static_cast<int64_t>(report.findings.size()), "finding"));
  return out;
}

std::string inspect_json(const InspectReport& report) {
  const bool has_config = report.config.has_value();
  Json json;
  json["architecture"] = has_config ? Json(name_of(report.config->architecture)) : Json();
  json["parameters"] = has_config ? report.config->num_parameters() : num_elements(report);
  json["bytes"] = total_bytes(report);
  json["dtype"] = main_dtype(report);
  const QuantConfig* quant =
      has_config && report.config->quantization ? &*report.config->quantization : nullptr;
  json["quant_method"] = quant != nullptr ? Json(name_of(quant->method)) : Json();
  json["bits"] = quant != nullptr && quant->bits ? Json(*quant->bits) : Json();
  json["group_size"] = quant != nullptr && quant->group_size ? Json(*quant->group_size) : Json();
  if (quant != nullptr) {
    json["quantized_types"] = report.quantized_types;
    json["plain_modules"] = report.plain_modules;
  }
  json["vocab_size"] = has_config ? Json(report.config->vocab_size) : Json();
  json["kv_bytes_per_token"] =
      has_config ? Json(kv_bytes_per_token(*report.config, DType::kBF16)) : Json();
  json["config"] = has_config ? config_json(*report.config) : Json();
  json["eos_token_ids"] = has_config ? Json(report.eos_token_ids) : Json();
  json["tokenizer_ids"] = report.tokenizer_ids ? Json(*report.tokenizer_ids) : Json();
  json["tensors"] = tensors_json(report);
  json["findings"] = report.checked ? Json(report.findings) : Json();
  json["run"] = {{"version", version_number()},
                 {"device", nullptr},
                 {"isa", nullptr},
                 {"act", nullptr},
                 {"kv_dtype", nullptr},
                 {"seed", nullptr},
                 {"model_sha256", nullptr}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llm
