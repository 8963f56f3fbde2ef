// What is wrong with a quantized module stops the load, named by tensor, expected and actual.
#include "model/quantized_module.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "refusal.h"

namespace llm {
namespace {

/// A checkpoint of one module "m" of made-up tensors, as a file.
class OneModule {
 public:
  explicit OneModule(const std::string& name)
      : dir_(std::filesystem::temp_directory_path() / ("llm-quantized-module-" + name)) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  ~OneModule() { std::filesystem::remove_all(dir_); }

  /// Filled with bytes of this value; 0x3c makes F16 scales of about 1.
  void set(const std::string& suffix, DType dtype, const Shape& shape, int fill) {
    tensors_[suffix] = {dtype, shape, fill};
  }
  void drop(const std::string& suffix) { tensors_.erase(suffix); }

  /// What stops it, or nothing.
  std::string refusal(const std::optional<QuantConfig>& config, int64_t n, int64_t k) {
    std::vector<Buffer> memory;
    std::vector<NamedTensor> all;
    for (const auto& [suffix, t] : tensors_) {
      memory.emplace_back(byte_size(t.dtype, t.shape));
      std::memset(memory.back().data(), t.fill, static_cast<size_t>(memory.back().size()));
      all.push_back({"m." + suffix, ConstTensor{memory.back().data(), t.dtype, t.shape}});
    }
    write_safetensors(dir_ / "model.safetensors", all);
    const Checkpoint checkpoint = Checkpoint::open(dir_);
    return refusal_of([&] { quantized_module(checkpoint, config, "m", n, k); });
  }

 private:
  struct Made {
    DType dtype;
    Shape shape;
    int fill;
  };
  std::filesystem::path dir_;
  std::map<std::string, Made> tensors_;
};

constexpr int64_t kN = 64, kK = 128;

QuantConfig config_of(QuantMethod method, int bits, int64_t group_size) {
  QuantConfig config;
  config.method = method;
  config.bits = bits;
  config.group_size = group_size;
  return config;
}

}  // namespace

TEST_CASE("quantized module: GPTQ tensors that don't fit") {
  OneModule m("gptq");
  const QuantConfig config = config_of(QuantMethod::kGptq, 4, 32);
  const auto set_all = [&] {
    m.set("qweight", DType::kI32, {kK / 8, kN}, 0x55);
    m.set("qzeros", DType::kI32, {4, kN / 8}, 0x77);
    m.set("scales", DType::kF16, {4, kN}, 0x3c);
  };
  set_all();
  CHECK(m.refusal(config, kN, kK) == "");
  m.set("qweight", DType::kI32, {kK / 8 + 1, kN}, 0x55);
  check_contains(m.refusal(config, kN, kK), "\"m.qweight\" has 17 words of 32 bits for 128 codes");
  m.set("qweight", DType::kI32, {kK / 8, kN - 8}, 0x55);
  check_contains(m.refusal(config, kN, kK), "\"m.qweight\" has shape [16, 56], expected [16, 64]");
  m.set("qweight", DType::kF16, {kK / 8, kN}, 0x55);
  check_contains(m.refusal(config, kN, kK), "\"m.qweight\" is F16, expected I32");
  m.set("qweight", DType::kI32, {kK / 4, kN}, 0x55);
  m.set("qzeros", DType::kI32, {4, kN / 4}, 0x77);
  check_contains(m.refusal(config, kN, kK), "codes of 8 bits, but config.json says 4");
  set_all();
  m.drop("scales");
  check_contains(m.refusal(config, kN, kK), "\"m.scales\" is missing; \"m.qweight\" needs it");
  set_all();
  m.drop("qzeros");
  check_contains(m.refusal(config, kN, kK), "\"m.qzeros\" is missing");
  set_all();
  m.set("scales", DType::kF16, {4, kN}, 0);
  check_contains(m.refusal(config, kN, kK), "the scale of output 0, group 0 is 0");
  m.set("scales", DType::kF16, {3, kN}, 0x3c);
  check_contains(m.refusal(config, kN, kK), "\"m.scales\" holds 3 groups for 128 inputs");
  set_all();
  m.set("g_idx", DType::kI32, {kK}, 0x01);
  check_contains(m.refusal(config, kN, kK), "channel 0 is in group 16843009");
  m.set("g_idx", DType::kI32, {kK}, 0);  // no order at all
  CHECK(m.refusal(config, kN, kK) == "");
  m.set("weight", DType::kBF16, {kN, kK}, 0);
  check_contains(m.refusal(config, kN, kK), "formats are mixed");
  m.drop("weight");
  OneModule odd("gptq-odd");
  odd.set("qweight", DType::kI32, {kK / 8, 324}, 0x55);
  odd.set("qzeros", DType::kI32, {4, 40}, 0x77);
  odd.set("scales", DType::kF16, {4, 324}, 0x3c);
  check_contains(odd.refusal(config, 324, kK), "zeros of 324 outputs with 4 bits");
  check_contains(m.refusal(config_of(QuantMethod::kFp8, 4, 32), kN, kK),
                 "is not of quant_method \"fp8\"");
  check_contains(m.refusal(std::nullopt, kN, kK), "config.json has no \"quantization_config\"");
}

TEST_CASE("quantized module: FP8 and compressed-tensors that don't fit") {
  OneModule m("fp8");
  QuantConfig config = config_of(QuantMethod::kFp8, 8, 0);
  config.group_size.reset();
  m.set("weight", DType::kF8E4M3, {130, 130}, 0x30);
  check_contains(m.refusal(config, 130, 130), "\"m.weight_scale\" is missing");
  m.set("weight_scale_inv", DType::kF32, {2, 2}, 0x3c);
  CHECK(m.refusal(config, 130, 130) == "");
  m.set("weight_scale_inv", DType::kF32, {1, 2}, 0x3c);
  check_contains(m.refusal(config, 130, 130), "has shape [1, 2], expected [2, 2]");
  m.set("weight_scale_inv", DType::kF8E8M0, {2, 2}, 0x3c);
  check_contains(m.refusal(config, 130, 130), "is F8_E8M0, expected F32 or F16 or BF16");
  m.set("weight", DType::kBF16, {130, 130}, 0);
  m.set("weight_scale_inv", DType::kF32, {2, 2}, 0x3c);
  check_contains(m.refusal(config, 130, 130), "belongs to a quantized weight, but \"m.weight\"");

  OneModule ct("ct");
  const QuantConfig packed = config_of(QuantMethod::kCompressedTensors, 4, 32);
  ct.set("weight_packed", DType::kI32, {kN, kK / 8}, 0x55);
  ct.set("weight_scale", DType::kBF16, {kN, 4}, 0x3c);
  CHECK(ct.refusal(packed, kN, kK) == "");
  ct.set("weight_shape", DType::kI64, {2}, 0);
  check_contains(ct.refusal(packed, kN, kK), "\"m.weight_shape\" says [0, 0]");
  ct.drop("weight_shape");
  for (const Shape& shape : {Shape{kN, 1}, Shape{kN}, Shape{1}}) {  // one scale per output, or one
    ct.set("weight_scale", DType::kBF16, shape, 0x3c);
    CHECK(ct.refusal(config_of(QuantMethod::kCompressedTensors, 4, -1), kN, kK) == "");
  }
}

}  // namespace llm
