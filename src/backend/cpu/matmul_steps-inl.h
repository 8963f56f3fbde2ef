// What all matrix-product kernels are made of: one step along k. Included once per instruction set;
// all of it is local to that object.
#pragma once

#include <cstdint>

namespace llm {
namespace {

/// One step of the float path.
template <typename V>
struct Fma {
  static typename V::F32 step(typename V::F32 acc, typename V::U32 w, typename V::U32 x) {
    return V::fma(V::as_floats(w), V::as_floats(x), acc);
  }
};

/// One step of the pair path.
template <typename V>
struct Dot {
  static typename V::F32 step(typename V::F32 acc, typename V::U32 w, typename V::U32 x) {
    return V::dot(acc, w, x);
  }
};

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace
}  // namespace llm
