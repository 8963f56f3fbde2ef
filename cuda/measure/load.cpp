// What comes before the first token.
#include <array>

#include "cuda/measure/model_step.h"
#include "cuda/measure/sections.h"

namespace llm::measure {
namespace {

constexpr int kRing = 4;

/// As weights come: from a few pinned buffers in turn.
void measure_pinned_copies(Lab& lab) {
  const int64_t bytes = lab.small() ? int64_t{64} << 10 : int64_t{32} << 20;
  const int chunks = lab.small() ? 4 : 32;
  if (!lab.has_room(bytes * chunks, "copies from pinned memory")) return;
  const DeviceMemory device = lab.memory(bytes * chunks, Fill::kBF16);
  std::array<PinnedMemory, kRing> ring;
  for (PinnedMemory& buffer : ring) {
    buffer = pinned_memory(bytes);
    LLM_CUDA(cudaMemcpyAsync(buffer.get(), device.data(), static_cast<size_t>(bytes),
                             cudaMemcpyDeviceToHost, lab.stream()));
  }
  LLM_CUDA(cudaStreamSynchronize(lab.stream()));
  lab.time_queued({"pinned to device", fmt::format("buffers={} kib={}", kRing, bytes >> 10),
                   static_cast<double>(bytes * chunks), Unit::kGbs},
                  [&] {
                    for (int i = 0; i < chunks; ++i) {
                      LLM_CUDA(cudaMemcpyAsync(device.data() + i * bytes, ring[i % kRing].get(),
                                               static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                                               lab.stream()));
                    }
                  });
}

void measure_recording(Lab& lab) {
  constexpr const char* kModel = "qwen3-0.6b";
  constexpr int64_t kContext = 16;
  const ModelConfig config = config_of(kModel, lab.small());
  if (!lab.has_room(ModelStep::device_bytes(config, 1, kContext), "a recorded step")) return;
  ModelStep step(lab, config, 1, kContext);
  const auto queue = [&] { step.queue({"overlap", true, false}, lab.stream()); };
  queue();
  LLM_CUDA(cudaStreamSynchronize(lab.stream()));
  GraphExec graph;
  lab.time_host({"record a step", kModel, 0, Unit::kMs},
                [&] { graph = record_graph(lab.stream(), queue); });
  lab.time_host({"first replay", kModel, 0, Unit::kMs}, [&] {
    graph = record_graph(lab.stream(), queue);
    LLM_CUDA(cudaGraphLaunch(graph.get(), lab.stream()));
    LLM_CUDA(cudaStreamSynchronize(lab.stream()));
  });
  lab.time_host({"queue launch by launch", kModel, 0, Unit::kMs}, queue);
  LLM_CUDA(cudaStreamSynchronize(lab.stream()));
}

}  // namespace

void measure_load(Lab& lab) {
  measure_pinned_copies(lab);
  measure_recording(lab);
}

}  // namespace llm::measure
