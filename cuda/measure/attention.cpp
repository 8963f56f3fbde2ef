// Decode attention of one layer.
#include <algorithm>

#include "cuda/measure/cached_attention.h"
#include "cuda/measure/sections.h"

namespace llm::measure {
namespace {

struct CacheType {
  const char* name;
  KvType type;
};
constexpr CacheType kTypes[] = {
    {"bf16", KvType::kBF16}, {"fp8", KvType::kF8E4M3}, {"int8", KvType::kI8}};

void measure_one(Lab& lab, int num_heads, const CacheType& type, int64_t batch, int64_t context) {
  AttentionShape shape{num_heads, 8, 128, type.type, 1};
  if (lab.small()) shape = {num_heads / 8, 1, 32, type.type, 1};
  shape.layers = lab.copies(shape.layer_bytes(batch, context));
  const std::string parameters = fmt::format("context={} batch={} {} heads={}/{}", context, batch,
                                             type.name, shape.num_heads, shape.num_kv_heads);
  if (!lab.has_room(shape.layers * shape.layer_bytes(batch, context), "attention " + parameters)) {
    return;
  }
  CachedAttention attention(lab, shape, batch, context, Rows::kDecode);
  const DeviceMemory qkv =
      lab.memory(int64_t{attention.rows()} * shape.qkv_width() * 4, Fill::kF32);
  const DeviceMemory out =
      lab.memory(int64_t{attention.rows()} * shape.out_width() * 2, Fill::kBF16);
  const MemoryRange nothing[2] = {};
  lab.time_graph({"attention", parameters, shape.element_bytes(batch * context), Unit::kGbs},
                 shape.layers, [&](int layer) {
                   attention.decode(layer, reinterpret_cast<bf16*>(out.data()),
                                    reinterpret_cast<const float*>(qkv.data()), nothing,
                                    lab.stream());
                 });
}

}  // namespace

void measure_attention(Lab& lab) {
  const std::vector<int> contexts =
      lab.small() ? std::vector{40} : std::vector{256, 1024, 8192, 32768};
  for (const int num_heads : {16, 32}) {
    for (const CacheType& type : kTypes) {
      for (const int context : contexts) {
        for (const int batch : lab.small() ? std::vector{1, 3} : std::vector{1, 8, 64}) {
          measure_one(lab, num_heads, type, batch, context);
        }
      }
    }
  }
}

}  // namespace llm::measure
