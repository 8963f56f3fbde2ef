// A cuBLASLt for the emulator: the functions that the program uses, with checks of dimensions,
// types and addresses; products summed in double and rounded once to the output's type. Matrices
// are column-major, as the library's default.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "cuda/cublaslt_api.h"
#include "cuda/emu/device.h"

namespace llm {
namespace {

using emu::device;

struct Operation {
  bool transposes_a = false;
  bool transposes_b = false;
};

struct Layout {
  cudaDataType type;
  uint64_t rows;
  uint64_t columns;
  int64_t pitch;  // elements between columns
};

// The library's types are opaque; ours lie behind the same pointers.
const Layout& layout_of(cublasLtMatrixLayout_t handle) {
  return *reinterpret_cast<const Layout*>(handle);
}
const Operation& operation_of(cublasLtMatmulDesc_t handle) {
  return *reinterpret_cast<const Operation*>(handle);
}

cublasStatus_t status_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return CUBLAS_STATUS_SUCCESS;
    case cudaErrorInvalidValue:
      return CUBLAS_STATUS_INVALID_VALUE;
    case cudaErrorNotSupported:
      return CUBLAS_STATUS_NOT_SUPPORTED;
    case cudaErrorMemoryAllocation:
      return CUBLAS_STATUS_ALLOC_FAILED;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

/// Runs `body` (returning cudaError_t) as the function of this name.
template <typename Body>
cublasStatus_t call(const char* function, Body body) {
  return status_of(device().call(function, body));
}

/// Makes one of our objects behind the library's handle.
template <typename Handle, typename Object>
cublasStatus_t create(const char* function, Handle* out, const Object& object) {
  return call(function, [&] {
    *out = reinterpret_cast<Handle>(new Object(object));
    return cudaSuccess;
  });
}

template <typename Object, typename Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Object*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

// ---- Products ----

size_t bytes_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    default:
      return 0;
  }
}

float load(const std::byte* p, cudaDataType type) {
  if (type == CUDA_R_32F) return *reinterpret_cast<const float*>(p);
  if (type == CUDA_R_16F) return __half2float(*reinterpret_cast<const __half*>(p));
  return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(p));
}

void store(std::byte* p, cudaDataType type, double value) {
  if (type == CUDA_R_32F) {
    *reinterpret_cast<float*>(p) = static_cast<float>(value);
  } else if (type == CUDA_R_16F) {
    *reinterpret_cast<__half*>(p) = __double2half(value);
  } else {
    *reinterpret_cast<__nv_bfloat16*>(p) = __double2bfloat16(value);
  }
}

struct Product {
  Layout a, b, c, d;
  Operation operation;
  float alpha;
  float beta;
  const std::byte* a_data;
  const std::byte* b_data;
  const std::byte* c_data;
  std::byte* d_data;

  uint64_t m() const { return operation.transposes_a ? a.columns : a.rows; }
  uint64_t k() const { return operation.transposes_a ? a.rows : a.columns; }
  uint64_t n() const { return operation.transposes_b ? b.rows : b.columns; }
};

/// What is wrong with the shapes; empty if nothing.
std::string wrong_shapes(const Product& p) {
  for (const Layout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    if (bytes_of(layout->type) == 0) return "a type that isn't float32, BF16 or float16";
    if (layout->pitch < static_cast<int64_t>(layout->rows)) {
      return fmt::format("pitch {} of {} rows", layout->pitch, layout->rows);
    }
  }
  if (p.a.type != p.b.type || p.c.type != p.d.type) return "A and B, or C and D, of two types";
  const uint64_t b_k = p.operation.transposes_b ? p.b.columns : p.b.rows;
  if (b_k != p.k()) return fmt::format("inner dimensions {} and {}", p.k(), b_k);
  for (const Layout* out : {&p.c, &p.d}) {
    if (out->rows != p.m() || out->columns != p.n()) {
      return fmt::format("{}x{} for a product of {}x{}", out->rows, out->columns, p.m(), p.n());
    }
  }
  return "";
}

/// Whether the matrix lies in one device allocation.
bool is_on_device(const void* data, const Layout& layout) {
  if (layout.rows == 0 || layout.columns == 0) return true;
  const uint64_t elements = (layout.columns - 1) * layout.pitch + layout.rows;
  return device().memory().holds(data, elements * bytes_of(layout.type));
}

/// Columns of op(matrix)^T: `count` runs of `k` values.
std::vector<float> runs(const std::byte* data, const Layout& layout, bool k_is_rows, uint64_t count,
                        uint64_t k) {
  std::vector<float> values(count * k);
  const size_t bytes = bytes_of(layout.type);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t j = 0; j < k; ++j) {
      const uint64_t element = k_is_rows ? i * layout.pitch + j : j * layout.pitch + i;
      values[i * k + j] = load(data + element * bytes, layout.type);
    }
  }
  return values;
}

void compute(const Product& p) {
  const uint64_t k = p.k();
  const std::vector<float> a = runs(p.a_data, p.a, p.operation.transposes_a, p.m(), k);
  const std::vector<float> b = runs(p.b_data, p.b, !p.operation.transposes_b, p.n(), k);
  const size_t bytes = bytes_of(p.d.type);
  for (uint64_t column = 0; column < p.n(); ++column) {
    for (uint64_t row = 0; row < p.m(); ++row) {
      double sum = 0;
      for (uint64_t i = 0; i < k; ++i)
        sum += static_cast<double>(a[row * k + i]) * b[column * k + i];
      sum *= p.alpha;
      if (p.beta != 0) {
        sum += p.beta * load(p.c_data + (column * p.c.pitch + row) * bytes, p.c.type);
      }
      store(p.d_data + (column * p.d.pitch + row) * bytes, p.d.type, sum);
    }
  }
}

// ---- The library's functions ----

cublasStatus_t lt_create(cublasLtHandle_t* handle) { return create("cublasLtCreate", handle, 0); }
cublasStatus_t lt_destroy(cublasLtHandle_t handle) { return destroy<int>(handle); }

cublasStatus_t desc_create(cublasLtMatmulDesc_t* out, cublasComputeType_t compute_type,
                           cudaDataType_t scale_type) {
  if (compute_type != CUBLAS_COMPUTE_32F || scale_type != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return create("cublasLtMatmulDescCreate", out, Operation());
}

cublasStatus_t desc_set(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                        const void* value, size_t bytes) {
  return call("cublasLtMatmulDescSetAttribute", [&]() -> cudaError_t {
    cublasOperation_t op;
    if (value == nullptr || bytes != sizeof(op)) return cudaErrorInvalidValue;
    std::memcpy(&op, value, sizeof(op));
    auto* const operation = reinterpret_cast<Operation*>(handle);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
      operation->transposes_a = op == CUBLAS_OP_T;
    } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) {
      operation->transposes_b = op == CUBLAS_OP_T;
    } else {
      return cudaErrorNotSupported;
    }
    return cudaSuccess;
  });
}

cublasStatus_t layout_create(cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows,
                             uint64_t columns, int64_t pitch) {
  return create("cublasLtMatrixLayoutCreate", out, Layout{type, rows, columns, pitch});
}

cublasStatus_t preference_create(cublasLtMatmulPreference_t* out) {
  return create("cublasLtMatmulPreferenceCreate", out, 0);
}

cublasStatus_t preference_set(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                              const void* value, size_t) {
  return value != nullptr ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                         cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int wanted,
                         cublasLtMatmulHeuristicResult_t* results, int* count) {
  return call("cublasLtMatmulAlgoGetHeuristic", [&]() -> cudaError_t {
    *count = 0;
    const Product product{.a = layout_of(a),
                          .b = layout_of(b),
                          .c = layout_of(c),
                          .d = layout_of(d),
                          .operation = operation_of(operation),
                          .alpha = 1,
                          .beta = 0,
                          .a_data = nullptr,
                          .b_data = nullptr,
                          .c_data = nullptr,
                          .d_data = nullptr};
    if (const std::string wrong = wrong_shapes(product); !wrong.empty()) {
      return device().refuse_call(cudaErrorInvalidValue,
                                  "cublasLtMatmulAlgoGetHeuristic: " + wrong);
    }
    if (wanted < 1) return cudaErrorInvalidValue;
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return cudaSuccess;
  });
}

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  return call("cublasLtMatmul", [&]() -> cudaError_t {
    const Product product{.a = layout_of(a_layout),
                          .b = layout_of(b_layout),
                          .c = layout_of(c_layout),
                          .d = layout_of(d_layout),
                          .operation = operation_of(operation),
                          .alpha = *static_cast<const float*>(alpha),
                          .beta = *static_cast<const float*>(beta),
                          .a_data = static_cast<const std::byte*>(a),
                          .b_data = static_cast<const std::byte*>(b),
                          .c_data = static_cast<const std::byte*>(c),
                          .d_data = static_cast<std::byte*>(d)};
    std::string wrong = wrong_shapes(product);
    if (wrong.empty() && !(is_on_device(a, product.a) && is_on_device(b, product.b) &&
                           is_on_device(c, product.c) && is_on_device(d, product.d))) {
      wrong = "a matrix that isn't in one device allocation";
    }
    if (!wrong.empty()) {
      return device().refuse_call(cudaErrorInvalidValue, "cublasLtMatmul: " + wrong);
    }
    return device().submit(stream, {"cublasLtMatmul", [product] {
                                      ++device().counters().launches["cublasLtMatmul"];
                                      device().touch_memory([&] { compute(product); });
                                    }});
  });
}

size_t get_version() { return CUBLAS_VERSION; }

constexpr CublasLtApi kApi{
    .get_version = get_version,
    .create = lt_create,
    .destroy = lt_destroy,
    .matmul_desc_create = desc_create,
    .matmul_desc_destroy = destroy<Operation, cublasLtMatmulDesc_t>,
    .matmul_desc_set_attribute = desc_set,
    .matrix_layout_create = layout_create,
    .matrix_layout_destroy = destroy<Layout, cublasLtMatrixLayout_t>,
    .preference_create = preference_create,
    .preference_destroy = destroy<int, cublasLtMatmulPreference_t>,
    .preference_set_attribute = preference_set,
    .algo_get_heuristic = heuristic,
    .matmul = matmul,
};

}  // namespace

const CublasLtApi* load_cublaslt() { return device().settings().has_cublaslt ? &kApi : nullptr; }

}  // namespace llm
