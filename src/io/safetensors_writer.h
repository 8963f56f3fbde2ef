// Writes safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/tensor.h"

namespace llm {

struct NamedTensor {
  std::string name;
  ConstTensor tensor;
};

/// Writes the tensors sorted by element size (largest first) and name, so that each is aligned to
/// its elements, behind a header padded to 8 bytes. The file appears under its name only when it is
/// complete. Fails (exit code 1) on a write error.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace llm
