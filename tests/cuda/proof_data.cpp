#include "proof_data.h"

#include <cmath>
#include <memory>

namespace llm {
namespace {

/// Unit roundoff of float32 sums.
constexpr double kFloatStep = 1.0 / (1 << 24);

/// Numbers in [-1, 1), a multiple of 2^-7: exact in BF16.
class Numbers {
 public:
  float next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<float>(static_cast<int>(state_ >> 56) - 128) / 128.0F;
  }
  std::vector<float> floats(size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = next();
    return values;
  }
  std::vector<bf16> bf16s(size_t n) {
    std::vector<bf16> values(n);
    for (bf16& value : values) value = __float2bfloat16(next());
    return values;
  }

 private:
  uint64_t state_ = 1;
};

double value_of(bf16 x) { return __bfloat162float(x); }

/// False for NaN as well.
bool is_near(double got, double expected, double tolerance) {
  return std::abs(got - expected) <= tolerance;
}

class NormCase : public ProofCase {
 public:
  const char* name() const override { return "RMSNorm"; }

  bool run(Fault fault) override {
    const DeviceArray<float> x(x_);
    const DeviceArray<float> weight(weight_);
    DeviceArray<bf16> out(x_.size());
    DeviceArray<int> rows_done(1);
    rows_done.fill(0);
    launch_proof_norm({out.data(), x.data(), weight.data(), rows_done.data(), kRows, kWidth, kEps},
                      fault, nullptr);
    const std::vector<bf16> got = out.host();
    bool right = rows_done.host()[0] == kRows;
    for (int r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int i = 0; i < kWidth; ++i) sum += std::pow(x_[r * kWidth + i], 2);
      for (int i = 0; i < kWidth; ++i) {
        const double expected = x_[r * kWidth + i] / std::sqrt(sum / kWidth + kEps) * weight_[i];
        // BF16 rounds by 2^-9 of the value; float32 before it errs by far less than that again.
        right &= is_near(value_of(got[r * kWidth + i]), expected, std::abs(expected) / 256);
      }
    }
    return right;
  }

 private:
  static constexpr int kRows = 5;
  static constexpr int kWidth = 200;
  static constexpr float kEps = 1e-6F;
  Numbers numbers_;
  std::vector<float> x_ = numbers_.floats(kRows * kWidth);
  std::vector<float> weight_ = numbers_.floats(kWidth);
};

class GemmCase : public ProofCase {
 public:
  const char* name() const override { return "GEMM"; }

  bool run(Fault fault) override {
    const DeviceArray<bf16> x(x_);
    const DeviceArray<bf16> w(w_);
    DeviceArray<float> out(kM * kN);
    launch_proof_gemm({out.data(), x.data(), w.data(), kM, kN, kK}, fault, nullptr);
    const std::vector<float> got = out.host();
    bool right = true;
    for (int m = 0; m < kM; ++m) {
      for (int n = 0; n < kN; ++n) {
        double sum = 0;
        double magnitude = 0;
        for (int i = 0; i < kK; ++i) {
          const double product = value_of(x_[m * kK + i]) * value_of(w_[n * kK + i]);
          sum += product;
          magnitude += std::abs(product);
        }
        // k float32 additions at most, each rounding by half a step of what is summed so far.
        right &= is_near(got[m * kN + n], sum, kK * kFloatStep * magnitude);
      }
    }
    return right;
  }

 private:
  static constexpr int kM = 40;
  static constexpr int kN = 50;
  static constexpr int kK = 104;
  Numbers numbers_;
  std::vector<bf16> x_ = numbers_.bf16s(kM * kK);
  std::vector<bf16> w_ = numbers_.bf16s(kN * kK);
};

/// Runs twice from one captured graph, the length growing in between: what decoding does.
class AttentionCase : public ProofCase {
 public:
  const char* name() const override { return "attention"; }

  bool run(Fault fault) override {
    const DeviceArray<float> q(q_);
    const DeviceArray<bf16> k(k_);
    const DeviceArray<bf16> v(v_);
    DeviceArray<float> out(kHeads * kProofHeadDim);
    DeviceArray<float> partials(kHeads * kCapacity / kProofSplit * (kProofHeadDim + 2));
    DeviceArray<unsigned> finished(kHeads);
    DeviceArray<int> length(1);
    finished.fill(0);
    const ProofAttention args{out.data(),    q.data(),     k.data(),        v.data(),
                              length.data(), kFirstLength, partials.data(), finished.data(),
                              kHeads,        kCapacity};
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    LLM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    LLM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_proof_attention(args, fault, stream);
    LLM_CUDA(cudaStreamEndCapture(stream, &graph));
    LLM_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    bool right = true;
    for (const int n : {kFirstLength, kFirstLength + 51}) {
      length.set({n});
      if (cudaGraphLaunch(exec, stream) != cudaSuccess) break;
      if (cudaStreamSynchronize(stream) != cudaSuccess) break;
      right &= is_right(out.host(), n);
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return right;
  }

 private:
  bool is_right(const std::vector<float>& got, int length) const {
    bool right = true;
    for (int h = 0; h < kHeads; ++h) {
      std::vector<double> scores(length);
      double magnitude = 0;  // of a score's products, at most
      for (int i = 0; i < length; ++i) {
        double products = 0;
        for (int d = 0; d < kProofHeadDim; ++d) {
          const double product = q_[h * kProofHeadDim + d] * key(k_, h, i, d);
          scores[i] += product;
          products += std::abs(product);
        }
        magnitude = std::max(magnitude, products);
      }
      const double maximum = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - maximum);
      for (int d = 0; d < kProofHeadDim; ++d) {
        double value = 0;
        for (int i = 0; i < length; ++i) value += scores[i] / sum * key(v_, h, i, d);
        // A score errs by 64 roundings of its products, its exponential by as much again relative
        // to itself, twice for the quotient; the sums of weights add one rounding a key. |v| <= 1.
        const double tolerance =
            (2 * kProofHeadDim * magnitude + 2 * (length + kProofHeadDim)) * kFloatStep;
        right &= is_near(got[h * kProofHeadDim + d], value, tolerance);
      }
    }
    return right;
  }

  static double key(const std::vector<bf16>& cache, int head, int i, int d) {
    return value_of(cache[(static_cast<size_t>(head) * kCapacity + i) * kProofHeadDim + d]);
  }

  static constexpr int kHeads = 2;
  static constexpr int kCapacity = 256;
  static constexpr int kFirstLength = 149;
  Numbers numbers_;
  std::vector<float> q_ = numbers_.floats(kHeads * kProofHeadDim);
  std::vector<bf16> k_ = numbers_.bf16s(kHeads * kCapacity * kProofHeadDim);
  std::vector<bf16> v_ = numbers_.bf16s(kHeads * kCapacity * kProofHeadDim);
};

}  // namespace

std::unique_ptr<ProofCase> make_norm_case() { return std::make_unique<NormCase>(); }
std::unique_ptr<ProofCase> make_gemm_case() { return std::make_unique<GemmCase>(); }
std::unique_ptr<ProofCase> make_attention_case() { return std::make_unique<AttentionCase>(); }

}  // namespace llm
