#include "base/size_text.h"

#include <fmt/format.h>

namespace llm {

std::string size_text(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= 1 << 30) return fmt::format("{:.2f} GiB", size / (1 << 30));
  if (size >= 1 << 20) return fmt::format("{:.2f} MiB", size / (1 << 20));
  return fmt::format("{} bytes", bytes);
}

}  // namespace llm
