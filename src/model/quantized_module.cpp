#include "model/quantized_module.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "base/error.h"

namespace llm {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Describer {
 public:
  Describer(const Checkpoint& checkpoint, const std::optional<QuantConfig>& config,
            const std::string& module, int64_t n, int64_t k)
      : checkpoint_(checkpoint), config_(config), module_(module), n_(n), k_(k) {
    stored_.shape.n = n;
    stored_.shape.k = k;
  }

  std::optional<QuantizedModule> run() {
    const bool words = has("qweight");
    const bool packed = has("weight_packed");
    const bool plain = has("weight");
    if (words + packed + plain > 1) {
      refuse("{}: module \"{}\" has {}, expected one of them: formats are mixed", file_of(first()),
             module_,
             words && packed ? "qweight and weight_packed"
             : words         ? "qweight and weight"
                             : "weight_packed and weight");
    }
    if (!words && !packed && !(plain && is_coded(checkpoint_.tensor(name("weight")).dtype))) {
      refuse_scales_of_plain(plain);
      return std::nullopt;
    }
    check_method();
    if (words) {
      config_->method == QuantMethod::kGptq ? describe_gptq() : describe_awq();
    } else {
      packed ? describe_packed_rows() : describe_rows();
    }
    check_bits();
    if (const std::string problem = settle(stored_); !problem.empty()) {
      refuse("{}: module \"{}\": {}", file_of(used_.front()), module_, problem);
    }
    return QuantizedModule{std::make_shared<const StoredMatrix>(stored_), used_};
  }

 private:
  static bool is_coded(DType dtype) { return dtype == DType::kI8 || dtype == DType::kF8E4M3; }

  std::string name(const char* suffix) const { return module_ + "." + suffix; }
  bool has(const char* suffix) const { return checkpoint_.contains(name(suffix)); }
  std::string first() const {
    return name(has("qweight") ? "qweight" : has("weight_packed") ? "weight_packed" : "weight");
  }
  std::string file_of(const std::string& tensor) const {
    return checkpoint_.file_of(tensor).string();
  }

  /// A tensor that has to be there, of one of these types.
  ConstTensor tensor(const char* suffix, std::initializer_list<DType> dtypes) {
    const std::string full = name(suffix);
    if (!checkpoint_.contains(full)) {
      refuse("{}: tensor \"{}\" is missing; \"{}\" needs it", file_of(first()), full, first());
    }
    const ConstTensor found = checkpoint_.tensor(full);
    if (std::find(dtypes.begin(), dtypes.end(), found.dtype) == dtypes.end()) {
      std::string expected;
      for (const DType dtype : dtypes) {
        expected += fmt::format("{}{}", expected.empty() ? "" : " or ", name_of(dtype));
      }
      refuse("{}: tensor \"{}\" is {}, expected {}", file_of(full), full, name_of(found.dtype),
             expected);
    }
    used_.push_back(full);
    return found;
  }
  ConstTensor float_tensor(const char* suffix) {
    return tensor(suffix, {DType::kF32, DType::kF16, DType::kBF16});
  }

  void expect_shape(const char* suffix, const ConstTensor& found, const Shape& expected) const {
    if (found.shape == expected) return;
    const std::string full = name(suffix);
    refuse("{}: tensor \"{}\" has shape {}, expected {} for a weight of {}", file_of(full), full,
           to_string(found.shape), to_string(expected), to_string(Shape{n_, k_}));
  }

  /// Bits of codes that fill `words` 32-bit words for each of `count`.
  void set_bits(const char* suffix, int64_t words, int64_t count,
                std::initializer_list<int> known) {
    for (const int bits : known) {
      if (ceil_div(count * bits, 32) != words) continue;
      stored_.bits = bits;
      stored_.shape.type = bits == 8 ? CodeType::kU8 : CodeType::kU4;
      return;
    }
    const std::string full = name(suffix);
    refuse(
        "{}: tensor \"{}\" has {} words of 32 bits for {} codes, which no known number of bits "
        "gives",
        file_of(full), full, words, count);
  }

  /// The group size that gives `groups` of them over k: the config's, else equal ones.
  void set_groups(const char* suffix, int64_t groups) {
    int64_t size = config_->group_size.value_or(0);
    if (size < 0) size = k_;
    if (size == 0 || ceil_div(k_, size) != groups) {
      const bool even = groups > 0 && k_ % groups == 0;
      if (!even || config_->group_size) {
        const std::string full = name(suffix);
        refuse("{}: tensor \"{}\" holds {} groups for {} inputs, expected {}", file_of(full), full,
               groups, k_,
               size > 0 ? fmt::format("{} groups of {} (\"group_size\")", ceil_div(k_, size), size)
                        : std::string("a number that divides them"));
      }
      size = k_ / groups;
    }
    if (size % kColumnUnit != 0 && size < k_) {
      const std::string full = name(suffix);
      refuse("{}: tensor \"{}\": groups of {} inputs, expected a multiple of {}", file_of(full),
             full, size, kColumnUnit);
    }
    stored_.shape.group_size = std::min(size, k_);
  }

  void read_g_idx(const char* suffix) {
    if (!has(suffix)) return;
    stored_.g_idx = tensor(suffix, {DType::kI32});
    expect_shape(suffix, stored_.g_idx, {k_});
    // Some writers leave zeros where there is no order.
    const std::byte* data = stored_.g_idx.data;
    const bool all_zero = std::all_of(data, data + stored_.g_idx.bytes(),
                                      [](std::byte b) { return b == std::byte{0}; });
    if (all_zero) stored_.g_idx = {};
  }

  void describe_gptq() {
    stored_.layout = StoredLayout::kGptq;
    stored_.zero_rule = config_->zero_rule;
    stored_.codes = tensor("qweight", {DType::kI32});
    if (stored_.codes.shape.rank() != 2) expect_shape("qweight", stored_.codes, {k_ / 8, n_});
    set_bits("qweight", stored_.codes.shape[0], k_, {4, 8, 3, 2});
    expect_shape("qweight", stored_.codes, {k_ * stored_.bits / 32, n_});
    stored_.scales = float_tensor("scales");
    if (stored_.scales.shape.rank() != 2) expect_shape("scales", stored_.scales, {1, n_});
    if (n_ * stored_.bits % 32 != 0) {
      refuse("{}: module \"{}\": GPTQ's zeros of {} outputs with {} bits don't fill whole words",
             file_of(first()), module_, n_, stored_.bits);
    }
    set_groups("scales", stored_.scales.shape[0]);
    const int64_t groups = stored_.shape.num_groups();
    expect_shape("scales", stored_.scales, {groups, n_});
    stored_.zeros = tensor("qzeros", {DType::kI32});
    expect_shape("qzeros", stored_.zeros, {groups, n_ * stored_.bits / 32});
    read_g_idx("g_idx");
  }

  void describe_awq() {
    stored_.layout = StoredLayout::kAwq;
    stored_.shape.type = CodeType::kU4;
    stored_.bits = 4;
    stored_.zero = 8;
    if (n_ % 8 != 0) {
      refuse("{}: module \"{}\": AWQ needs a multiple of 8 outputs, not {}", file_of(first()),
             module_, n_);
    }
    stored_.codes = tensor("qweight", {DType::kI32});
    expect_shape("qweight", stored_.codes, {k_, n_ / 8});
    stored_.scales = float_tensor("scales");
    if (stored_.scales.shape.rank() != 2) expect_shape("scales", stored_.scales, {1, n_});
    set_groups("scales", stored_.scales.shape[0]);
    expect_shape("scales", stored_.scales, {stored_.shape.num_groups(), n_});
    if (!has("qzeros")) return;
    stored_.zeros = tensor("qzeros", {DType::kI32});
    expect_shape("qzeros", stored_.zeros, {stored_.shape.num_groups(), n_ / 8});
  }

  void describe_packed_rows() {
    stored_.layout = StoredLayout::kPackedRows;
    stored_.codes = tensor("weight_packed", {DType::kI32});
    if (stored_.codes.shape.rank() != 2) {
      expect_shape("weight_packed", stored_.codes, {n_, ceil_div(k_, 8)});
    }
    set_bits("weight_packed", stored_.codes.shape[1], k_, {4, 8});
    stored_.zero = 1 << (stored_.bits - 1);
    expect_shape("weight_packed", stored_.codes, {n_, ceil_div(k_ * stored_.bits, 32)});
    check_weight_shape();
    read_scales("weight_scale");
    if (has("weight_zero_point")) {
      stored_.zeros = tensor("weight_zero_point", {DType::kI32});
      expect_shape("weight_zero_point", stored_.zeros,
                   {ceil_div(n_ * stored_.bits, 32), stored_.shape.num_groups()});
    }
    read_g_idx("weight_g_idx");
  }

  void check_weight_shape() {
    if (!has("weight_shape")) return;
    const ConstTensor shape = tensor("weight_shape", {DType::kI64, DType::kI32});
    expect_shape("weight_shape", shape, {2});
    int64_t dims[2];
    for (int i = 0; i < 2; ++i) {
      if (shape.dtype == DType::kI64) {
        std::memcpy(&dims[i], shape.data + i * 8, 8);
      } else {
        int32_t dim;
        std::memcpy(&dim, shape.data + i * 4, 4);
        dims[i] = dim;
      }
    }
    if (dims[0] == n_ && dims[1] == k_) return;
    const std::string full = name("weight_shape");
    refuse("{}: tensor \"{}\" says {}, but config.json implies {}", file_of(full), full,
           to_string(Shape{dims[0], dims[1]}), to_string(Shape{n_, k_}));
  }

  /// [n, G], [n, 1], [n], [1], [], or blocks.
  void read_scales(const char* suffix) {
    stored_.scales = float_tensor(suffix);
    const Shape& shape = stored_.scales.shape;
    if (shape.num_elements() == 1) {
      stored_.scale_rows = n_;
      stored_.shape.group_size = k_;
    } else if (shape.rank() == 1) {
      expect_shape(suffix, stored_.scales, {n_});
      stored_.shape.group_size = k_;
    } else if (shape.rank() == 2 && shape[0] == n_ && (shape[1] == 1 || !is_block(shape))) {
      set_groups(suffix, shape[1]);
    } else {
      const int64_t rows = config_->block_rows;
      const int64_t cols = config_->block_cols;
      expect_shape(suffix, stored_.scales, {ceil_div(n_, rows), ceil_div(k_, cols)});
      stored_.scale_rows = rows;
      stored_.shape.group_size = std::min(cols, k_);
    }
  }

  bool is_block(const Shape& shape) const {
    return stored_.codes.dtype == DType::kF8E4M3 &&
           shape == Shape{ceil_div(n_, config_->block_rows), ceil_div(k_, config_->block_cols)};
  }

  void describe_rows() {
    stored_.layout = StoredLayout::kRows;
    stored_.codes = tensor("weight", {DType::kI8, DType::kF8E4M3});
    expect_shape("weight", stored_.codes, {n_, k_});
    stored_.bits = 8;
    const bool is_float = stored_.codes.dtype == DType::kF8E4M3;
    stored_.shape.type = is_float ? CodeType::kF8E4M3 : CodeType::kU8;
    stored_.zero = is_float ? 0 : 128;
    read_scales(has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale");
    if (!is_float && has("weight_zero_point")) {
      stored_.zeros = tensor("weight_zero_point", {DType::kI8});
      expect_shape("weight_zero_point", stored_.zeros, stored_.scales.shape);
    }
    // Scales of activations, which stay as they are.
    for (const char* suffix : {"input_scale", "activation_scale"}) {
      if (has(suffix)) used_.push_back(name(suffix));
    }
  }

  /// Scales beside a weight of plain type would be left out silently.
  void refuse_scales_of_plain(bool plain) const {
    for (const char* suffix : {"scales", "qzeros", "weight_scale", "weight_scale_inv"}) {
      if (!has(suffix)) continue;
      const std::string full = name(suffix);
      refuse("{}: tensor \"{}\" belongs to a quantized weight, but {}", file_of(full), full,
             plain ? fmt::format("\"{}\" is {}", name("weight"),
                                 name_of(checkpoint_.tensor(name("weight")).dtype))
                   : std::string("there is none"));
    }
  }

  /// The tensors are of the method that the config says.
  void check_method() const {
    if (!config_) {
      refuse("{}: tensor \"{}\" is quantized, but config.json has no \"quantization_config\"",
             file_of(first()), first());
    }
    const QuantMethod method = config_->method;
    const bool is_rows = !has("qweight") && !has("weight_packed");
    const bool fits = has("qweight") ? method == QuantMethod::kAwq || method == QuantMethod::kGptq
                                     : method == QuantMethod::kCompressedTensors ||
                                           (is_rows && method == QuantMethod::kFp8);
    if (fits) return;
    refuse("{}: tensor \"{}\" is not of quant_method \"{}\", which config.json says",
           file_of(first()), first(), name_of(method));
  }

  void check_bits() const {
    if (!config_->bits || *config_->bits == stored_.bits) return;
    refuse("{}: tensor \"{}\" holds codes of {} bits, but config.json says {}", file_of(first()),
           first(), stored_.bits, *config_->bits);
  }

  const Checkpoint& checkpoint_;
  const std::optional<QuantConfig>& config_;
  const std::string& module_;
  int64_t n_;
  int64_t k_;
  StoredMatrix stored_;
  std::vector<std::string> used_;
};

}  // namespace

std::optional<QuantizedModule> quantized_module(const Checkpoint& checkpoint,
                                                const std::optional<QuantConfig>& config,
                                                const std::string& module, int64_t n, int64_t k) {
  return Describer(checkpoint, config, module, n, k).run();
}

}  // namespace llm
