#include "formula_weights.h"

namespace llm {

std::vector<int8_t> formula_bytes(std::string_view name, int64_t count) {
  uint64_t state = 0xcbf29ce484222325u;
  for (const char c : name) state = (state ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  std::vector<int8_t> bytes(static_cast<size_t>(count));
  for (int8_t& byte : bytes) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    byte = static_cast<int8_t>((z ^ (z >> 31)) >> 56);
  }
  return bytes;
}

std::vector<BF16> formula_weights(std::string_view name, int64_t count, double scale) {
  std::vector<BF16> values;
  for (const int8_t byte : formula_bytes(name, count)) {
    values.push_back(to_bf16(static_cast<float>(byte / 128.0 * scale)));
  }
  return values;
}

std::vector<BF16> formula_norm(std::string_view name, int64_t count) {
  std::vector<BF16> values;
  for (const int8_t byte : formula_bytes(name, count)) {
    values.push_back(to_bf16(1.0f + static_cast<float>(byte >> 1) / 128.0f));
  }
  return values;
}

}  // namespace llm
