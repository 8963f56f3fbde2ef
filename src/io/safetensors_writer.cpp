#include "io/safetensors_writer.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "io/json.h"
#include "io/output_file.h"

namespace llm {
namespace {

std::string header_json(std::span<const NamedTensor* const> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string json = "{\"__metadata__\":{";
  const char* comma = "";
  for (const auto& [key, value] : metadata) {
    json += comma + json_quote(key) + ":" + json_quote(value);
    comma = ",";
  }
  json += "}";
  int64_t offset = 0;
  for (const NamedTensor* item : tensors) {
    const ConstTensor& tensor = item->tensor;
    json += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json_quote(item->name), name_of(tensor.dtype),
                        fmt::join(tensor.shape.dims(), ","), offset, offset + tensor.bytes());
    offset += tensor.bytes();
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return std::tuple(-bits_of(a->tensor.dtype), std::string_view(a->name)) <
           std::tuple(-bits_of(b->tensor.dtype), std::string_view(b->name));
  });
  const std::string header = header_json(sorted, metadata);
  const uint64_t length = header.size();

  OutputFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const NamedTensor* item : sorted) {
    file.write({item->tensor.data, static_cast<size_t>(item->tensor.bytes())});
  }
  file.commit();
}

}  // namespace llm
