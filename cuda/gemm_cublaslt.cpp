#include "cuda/gemm_cublaslt.h"

namespace llm {
namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what Hopper's best kernels ask for
constexpr size_t kMaxPlans = 4096;
// Of every operand: rows of a step begin anywhere.
constexpr uint32_t kOperandAlignment = 16;

}  // namespace

/// Descriptors and the chosen algorithm of one shape. In the library's column-major terms a
/// row-major [m, n] is an n x m matrix, so out^T = W x^T is computed: A = W (k x n, transposed),
/// B = x (k x m), C = D = out (n x m).
struct CublasLtGemm::Plan {
  explicit Plan(const CublasLtApi& lib) : api(&lib) {}
  ~Plan() {
    if (a != nullptr) api->matrix_layout_destroy(a);
    if (b != nullptr) api->matrix_layout_destroy(b);
    if (d != nullptr) api->matrix_layout_destroy(d);
    if (operation != nullptr) api->matmul_desc_destroy(operation);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const CublasLtApi* api;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;  // the library computes this shape
};

std::unique_ptr<CublasLtGemm> CublasLtGemm::create() {
  const CublasLtApi* api = load_cublaslt();
  if (api == nullptr) return nullptr;
  cublasLtHandle_t handle = nullptr;
  if (api->create(&handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  return std::unique_ptr<CublasLtGemm>(new CublasLtGemm(*api, handle));
}

CublasLtGemm::CublasLtGemm(const CublasLtApi& api, cublasLtHandle_t handle)
    : api_(&api), handle_(handle) {}

CublasLtGemm::~CublasLtGemm() {
  plans_.clear();
  api_->destroy(handle_);
}

std::unique_ptr<CublasLtGemm::Plan> CublasLtGemm::make_plan(const Key& key) const {
  const auto [m, n, k, adds] = key;
  auto plan = std::make_unique<Plan>(*api_);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const bool described =
      api_->matmul_desc_create(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
          CUBLAS_STATUS_SUCCESS &&
      api_->matmul_desc_set_attribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                      sizeof transposed) == CUBLAS_STATUS_SUCCESS &&
      api_->matrix_layout_create(&plan->a, CUDA_R_16BF, k, n, k) == CUBLAS_STATUS_SUCCESS &&
      api_->matrix_layout_create(&plan->b, CUDA_R_16BF, k, m, k) == CUBLAS_STATUS_SUCCESS &&
      api_->matrix_layout_create(&plan->d, CUDA_R_32F, n, m, n) == CUBLAS_STATUS_SUCCESS;
  if (!described) return plan;

  cublasLtMatmulPreference_t preference = nullptr;
  if (api_->preference_create(&preference) != CUBLAS_STATUS_SUCCESS) return plan;
  const size_t workspace = kWorkspaceBytes;
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  bool limited =
      api_->preference_set_attribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                     &workspace, sizeof workspace) == CUBLAS_STATUS_SUCCESS;
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    limited &= api_->preference_set_attribute(preference, attribute, &kOperandAlignment,
                                              sizeof kOperandAlignment) == CUBLAS_STATUS_SUCCESS;
  }
  plan->found =
      limited &&
      api_->algo_get_heuristic(handle_, plan->operation, plan->a, plan->b, plan->d, plan->d,
                               preference, 1, &best, &count) == CUBLAS_STATUS_SUCCESS &&
      count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  plan->algorithm = best.algo;
  api_->preference_destroy(preference);
  return plan;
}

bool CublasLtGemm::run(float* out, Epilogue epilogue, const bf16* x, int m,
                       const LinearWeights& weights, cudaStream_t stream) {
  const Key key{m, weights.n, weights.k, epilogue == Epilogue::kAdd};
  auto place = plans_.find(key);
  if (place == plans_.end()) {
    if (plans_.size() >= kMaxPlans) plans_.clear();  // lengths of prompts have no end
    place = plans_.emplace(key, make_plan(key)).first;
  }
  const Plan& plan = *place->second;
  if (!plan.found) return false;
  std::byte* workspace = workspace_.reserve(kWorkspaceBytes, stream);
  const float one = 1.0f;
  const float beta = epilogue == Epilogue::kAdd ? 1.0f : 0.0f;
  return api_->matmul(handle_, plan.operation, &one, weights.weight, plan.a, x, plan.b, &beta, out,
                      plan.d, out, plan.d, &plan.algorithm, workspace, kWorkspaceBytes,
                      stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace llm
