// NumPy's .npy files, float32 matrices only.
// Format: numpy/lib/format.py (magic, version 1.0, u16 LE header length, a Python dict as text).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/output_file.h"

namespace llm {

/// Writes a float32 [rows, cols] array piece by piece.
class NpyWriter {
 public:
  /// Fails (exit code 1) when the file can't be created.
  NpyWriter(const std::filesystem::path& path, int64_t rows, int64_t cols);

  /// Appends whole or partial rows, in row-major order. Fails on a write error.
  void write(std::span<const float> values);

  /// All rows * cols values are written: makes the file appear under its name. Without it nothing
  /// stays behind.
  void close();

 private:
  OutputFile file_;
  int64_t remaining_;
};

struct NpyMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> values;  // [rows, cols]
};

/// Refuses (exit code 2) anything but a complete C-order little-endian float32 matrix.
NpyMatrix read_npy(const std::filesystem::path& path);

}  // namespace llm
