#include "quant/quant_config.h"

#include <array>
#include <utility>

namespace llm {
namespace {

constexpr std::array<std::pair<QuantMethod, std::string_view>, 4> kNames = {{
    {QuantMethod::kAwq, "awq"},
    {QuantMethod::kGptq, "gptq"},
    {QuantMethod::kCompressedTensors, "compressed-tensors"},
    {QuantMethod::kFp8, "fp8"},
}};

}  // namespace

std::string_view name_of(QuantMethod method) {
  for (const auto& [value, name] : kNames) {
    if (value == method) return name;
  }
  return "";
}

std::optional<QuantMethod> quant_method_from_name(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace llm
