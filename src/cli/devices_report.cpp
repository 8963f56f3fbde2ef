#include "cli/devices_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "base/size_text.h"
#include "base/thread_pool.h"
#include "engine/memory.h"
#include "io/json.h"

namespace llm {
namespace {

using Json = nlohmann::ordered_json;

std::string gpu_line(const CudaDevice& device) {
  std::string line = fmt::format("{:<10}", fmt::format("cuda:{}", device.index));
  if (device.name.empty()) return line + device.problem + "\n";
  line += fmt::format("{}, {}, {} multiprocessors, {}", device.name, device.architecture,
                      device.num_multiprocessors, size_text(device.total_bytes));
  if (!device.problem.empty()) return line + "\n          can't be used: " + device.problem + "\n";
  return line + fmt::format(" of which {} free\n", size_text(device.free_bytes));
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string devices_table(const CudaSystem& cuda) {
  const int64_t memory = available_memory();
  std::string table = fmt::format(
      "{:<10}{}, {}, {} threads{}\n", "cpu", cpu_model_name(), name_of(choose_isa()),
      allowed_threads(),
      memory == kUnlimitedMemory ? "" : fmt::format(", {} available", size_text(memory)));
  if (cuda.devices.empty()) return table + fmt::format("{:<10}none: {}\n", "cuda", cuda.problem);
  for (const CudaDevice& device : cuda.devices) table += gpu_line(device);
  const std::string cublaslt = cublaslt_version();
  return table + fmt::format("{:<10}{}\n", "cuBLASLt",
                             cublaslt.empty()
                                 ? "not found: prompts go through a product of our own, slower"
                                 : cublaslt);
}

std::string devices_json(const CudaSystem& cuda) {
  const int64_t memory = available_memory();
  Json object;
  object["cpu"] = {{"name", cpu_model_name()},
                   {"isa", name_of(choose_isa())},
                   {"threads", allowed_threads()},
                   {"available_bytes", memory == kUnlimitedMemory ? Json(nullptr) : Json(memory)}};
  Json& gpu = object["cuda"];
  gpu = {{"build", text_or_null(cuda_build())},
         {"driver", text_or_null(cuda.driver)},
         {"cublaslt", text_or_null(cublaslt_version())},
         {"problem", text_or_null(cuda.problem)},
         {"devices", Json::array()}};
  for (const CudaDevice& device : cuda.devices) {
    gpu["devices"].push_back({{"index", device.index},
                              {"name", text_or_null(device.name)},
                              {"architecture", text_or_null(device.architecture)},
                              {"multiprocessors", device.num_multiprocessors},
                              {"total_bytes", device.total_bytes},
                              {"free_bytes", device.free_bytes},
                              {"problem", text_or_null(device.problem)}});
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llm
