#include "io/npy.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/mapped_file.h"

namespace llm {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);  // with version 1.0
constexpr size_t kPreamble = kMagic.size() + 2;             // and the header length
constexpr size_t kAlignment = 64;                           // of the data, as NumPy writes it

std::string header_text(int64_t rows, int64_t cols) {
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const size_t unpadded = kPreamble + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text.push_back('\n');
  return text;
}

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, int64_t rows, int64_t cols)
    : file_(path), remaining_(rows * cols) {
  const std::string text = header_text(rows, cols);
  const auto length = static_cast<uint16_t>(text.size());
  file_.write(kMagic);
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
}

void NpyWriter::write(std::span<const float> values) {
  remaining_ -= static_cast<int64_t>(values.size());
  LLM_CHECK(remaining_ >= 0, "{} values too many", -remaining_);
  file_.write(std::as_bytes(values));
}

void NpyWriter::close() {
  LLM_CHECK(remaining_ == 0, "{} values missing", remaining_);
  file_.commit();
}

NpyMatrix read_npy(const std::filesystem::path& path) {
  const auto mapping = MappedFile::open(path);
  const std::string_view file(reinterpret_cast<const char*>(mapping->data()),
                              static_cast<size_t>(mapping->size()));
  if (file.size() < kPreamble || file.substr(0, kMagic.size()) != kMagic) {
    refuse("{}: not a .npy file of version 1.0", path.string());
  }
  uint16_t length = 0;
  std::memcpy(&length, file.data() + kMagic.size(), sizeof length);
  const std::string header(file.substr(kPreamble, length));
  long long rows = 0;
  long long cols = 0;
  const size_t shape = header.find("'shape': (");
  const bool is_matrix =
      header.size() == length && header.find("'descr': '<f4'") != std::string::npos &&
      header.find("'fortran_order': False") != std::string::npos && shape != std::string::npos &&
      std::sscanf(header.c_str() + shape, "'shape': (%lld, %lld)", &rows, &cols) == 2;
  if (!is_matrix || rows < 0 || cols < 0) {
    refuse("{}: expected a C-order float32 matrix", path.string());
  }
  const size_t available = file.size() - kPreamble - length;
  long long bytes = 0;
  if (__builtin_mul_overflow(rows, cols, &bytes) || __builtin_mul_overflow(bytes, 4LL, &bytes) ||
      static_cast<size_t>(bytes) != available) {
    refuse("{}: the shape ({}, {}) doesn't fit the {} bytes of data", path.string(), rows, cols,
           available);
  }
  NpyMatrix matrix{rows, cols, std::vector<float>(available / sizeof(float))};
  if (available > 0) std::memcpy(matrix.values.data(), file.data() + kPreamble + length, available);
  return matrix;
}

}  // namespace llm
