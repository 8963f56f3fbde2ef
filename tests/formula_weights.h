// Weights that a test and scripts/make_goldens.py compute alike, so that no checkpoint is stored.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace llm {

/// Signed bytes: the top byte of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) with the 64-bit
/// FNV-1a hash of `name` as the seed.
std::vector<int8_t> formula_bytes(std::string_view name, int64_t count);

/// byte / 128 * scale, which BF16 holds exactly where scale is a power of two.
std::vector<BF16> formula_weights(std::string_view name, int64_t count, double scale);

/// 1 + floor(byte / 2) / 128: scales of a norm.
std::vector<BF16> formula_norm(std::string_view name, int64_t count);

}  // namespace llm
