// What the memory gives, and what a launch costs.
#include <algorithm>

#include "base/error.h"
#include "cuda/measure/sections.h"

namespace llm::measure {
namespace {

void measure_copy(Lab& lab, const DeviceMemory& memory) {
  const size_t bytes = static_cast<size_t>(memory.size() / 2);
  std::byte* to = memory.data() + bytes;
  lab.time_queued(
      {"copy", fmt::format("mib={}", bytes >> 20), 2.0 * static_cast<double>(bytes), Unit::kGbs},
      [&] {
        LLM_CUDA(cudaMemcpyAsync(to, memory.data(), bytes, cudaMemcpyDeviceToDevice, lab.stream()));
      });
}

using Read = void (*)(uint32_t*, const std::byte*, int64_t, int, int, Queue);

void measure_reads(Lab& lab, const DeviceMemory& memory, const char* name, Read read,
                   const std::vector<int>& depths, const std::vector<int>& blocks_per_sm) {
  const DeviceMemory sink = lab.zeros(sizeof(uint32_t));
  for (const int per_sm : blocks_per_sm) {
    for (const int depth : depths) {
      const int blocks = per_sm * lab.multiprocessors();
      const int64_t round = read_round_bytes(depth, blocks);
      const int64_t bytes = memory.size() / round * round;
      if (bytes == 0) continue;
      const std::string parameters = fmt::format("blocks_per_sm={} kib_in_flight_per_sm={}", per_sm,
                                                 read_round_bytes(depth, per_sm) / 1024);
      lab.time_queued({name, parameters, static_cast<double>(bytes), Unit::kGbs}, [&] {
        read(reinterpret_cast<uint32_t*>(sink.data()), memory.data(), bytes, depth, blocks,
             lab.stream());
      });
    }
  }
}

/// Whether every block counted every link.
bool counted_all(Lab& lab, const int32_t* counts, int blocks, int links) {
  std::vector<int32_t> host(static_cast<size_t>(blocks));
  LLM_CUDA(cudaMemcpyAsync(host.data(), counts, host.size() * sizeof(int32_t),
                           cudaMemcpyDeviceToHost, lab.stream()));
  LLM_CUDA(cudaStreamSynchronize(lab.stream()));
  return host[0] > 0 && host[0] % links == 0 &&
         std::all_of(host.begin(), host.end(), [&](int32_t count) { return count == host[0]; });
}

void measure_chain(Lab& lab, int blocks, bool overlaps) {
  const int links = lab.small() ? 4 : 200;
  const DeviceMemory memory = lab.zeros(int64_t{2} * blocks * 4);
  int32_t* const counts[2] = {reinterpret_cast<int32_t*>(memory.data()),
                              reinterpret_cast<int32_t*>(memory.data()) + blocks};
  const std::string parameters =
      fmt::format("launches={} blocks={} {}", links, blocks, overlaps ? "overlap" : "plain");
  lab.time_graph({"chain", parameters, 0, Unit::kUs}, links, [&](int i) {
    launch_link(counts[1 - i % 2], counts[i % 2], blocks, {lab.stream(), overlaps});
  });
  if (!counted_all(lab, counts[0], blocks, links)) {
    fail("chain, {}: a launch read what the one before it hadn't written", parameters);
  }
}

}  // namespace

void measure_ceilings(Lab& lab) {
  const int64_t bytes = lab.small() ? int64_t{1} << 20 : int64_t{2} << 30;
  if (lab.has_room(bytes, "copies and reads")) {
    const DeviceMemory memory = lab.memory(bytes, Fill::kBF16);
    measure_copy(lab, memory);
    const std::vector<int> one = {1};
    measure_reads(lab, memory, "read to registers", launch_read_registers,
                  lab.small() ? std::vector<int>{2, 16} : std::vector<int>{2, 4, 8, 16},
                  lab.small() ? one : std::vector<int>{1, 2, 4, 8});
    measure_reads(lab, memory, "read to shared memory", launch_read_shared, {8, 16, 24},
                  lab.small() ? one : std::vector<int>{1, 2});
  }
  for (const int blocks : {1, lab.multiprocessors()}) {
    for (const bool overlaps : {false, true}) measure_chain(lab, blocks, overlaps);
  }
}

}  // namespace llm::measure
