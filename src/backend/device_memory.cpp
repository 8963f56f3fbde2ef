#include "backend/device_memory.h"

namespace llm {

DeviceMemory host_memory(int64_t bytes) {
  auto buffer = std::make_shared<Buffer>(bytes);
  std::byte* data = buffer->data();
  return {{std::move(buffer), data}, bytes};
}

}  // namespace llm
