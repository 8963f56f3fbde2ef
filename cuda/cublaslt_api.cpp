#include "cuda/cublaslt_api.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>
#include <string>

namespace llm {
namespace {

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::optional<CublasLtApi> load() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUDART_VERSION / 1000);
  // Never unloaded: its destructors would run after the device is gone.
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {  // where the toolkit's own installer puts it
    library = ::dlopen(("/usr/local/cuda/lib64/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return std::nullopt;
  CublasLtApi api;
  const bool complete =
      look_up(library, "cublasLtGetVersion", api.get_version) &&
      look_up(library, "cublasLtCreate", api.create) &&
      look_up(library, "cublasLtDestroy", api.destroy) &&
      look_up(library, "cublasLtMatmulDescCreate", api.matmul_desc_create) &&
      look_up(library, "cublasLtMatmulDescDestroy", api.matmul_desc_destroy) &&
      look_up(library, "cublasLtMatmulDescSetAttribute", api.matmul_desc_set_attribute) &&
      look_up(library, "cublasLtMatrixLayoutCreate", api.matrix_layout_create) &&
      look_up(library, "cublasLtMatrixLayoutDestroy", api.matrix_layout_destroy) &&
      look_up(library, "cublasLtMatmulPreferenceCreate", api.preference_create) &&
      look_up(library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
      look_up(library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set_attribute) &&
      look_up(library, "cublasLtMatmulAlgoGetHeuristic", api.algo_get_heuristic) &&
      look_up(library, "cublasLtMatmul", api.matmul);
  return complete ? std::optional(api) : std::nullopt;
}

}  // namespace

const CublasLtApi* load_cublaslt() {
  static const std::optional<CublasLtApi> api = load();
  return api ? &*api : nullptr;
}

}  // namespace llm
