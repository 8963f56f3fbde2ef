// The JSON header of a safetensors file, read as a stream of parser events: memory stays in
// proportion to the tensors listed, whatever else a hostile header holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace llm {

/// One tensor as the header states it; the numbers are not yet compared with anything.
struct SafetensorsHeaderEntry {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  uint64_t begin = 0;  // data_offsets, relative to the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsHeaderEntry, std::less<>> entries;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Refuses (exit code 2) text that isn't a header: malformed or too deep JSON, a wrong type, an
/// unknown dtype, a missing field, a name twice. `origin` names the file in messages.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& origin);

}  // namespace llm
