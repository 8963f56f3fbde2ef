// What decode and prefill attention share: a head's values in a warp (norm, rotation, rounding to
// the cache's type), the 8-bit types as BF16, and tiles in shared memory.
//
// A head of a row lies in one warp: lane l has elements 4 l .. 4 l + 3 of its lower half and the
// same of its upper half, which are the pairs that RoPE turns (rotate_half). Every rounding is
// written out, so that each kernel that appends a key stores the same bits.
#pragma once

#include <cmath>
#include <type_traits>

#include "backend/kv_layout.h"
#include "cuda/device_utils.cuh"
#include "cuda/kernels.h"

namespace llm::attention {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kSmallestNormal = 1.17549435e-38f;
inline constexpr float kLargestFloat = 3.40282347e+38f;

template <KvType kType>
inline constexpr int kElementBytes = kType == KvType::kBF16 ? 2 : 1;
template <KvType kType>
inline constexpr bool kHasScales = kType != KvType::kBF16;

__device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 x) {
  return *reinterpret_cast<uint32_t*>(&x);
}

__device__ __forceinline__ __nv_bfloat162 as_bf16x2(uint32_t x) {
  return *reinterpret_cast<__nv_bfloat162*>(&x);
}

/// e^x; 0 for -inf.
__device__ __forceinline__ float exp_approx(float x) { return ptx::exp2_approx(x * kLog2E); }

/// What a sum of weights is multiplied with when the maximum they are relative to grows.
__device__ __forceinline__ float rescale_factor(float old_maximum, float maximum) {
  return old_maximum == maximum ? 1.0f : exp_approx(old_maximum - maximum);
}

// ---- A head's values ----

struct HeadValues {
  float lower[4];
  float upper[4];
};

/// Lanes that have no elements get zeros.
__device__ __forceinline__ HeadValues load_head(const float* x, int head_dim, int lane) {
  const int half = head_dim / 2;
  float4 lower = {0, 0, 0, 0};
  float4 upper = lower;
  if (4 * lane < half) {
    lower = *reinterpret_cast<const float4*>(x + 4 * lane);
    upper = *reinterpret_cast<const float4*>(x + half + 4 * lane);
  }
  return {{lower.x, lower.y, lower.z, lower.w}, {upper.x, upper.y, upper.z, upper.w}};
}

/// x / sqrt(mean(x^2) + eps) * weight.
__device__ __forceinline__ void norm_head(HeadValues& x, const float* weight, float eps,
                                          int head_dim, int lane) {
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    squares = fmaf(x.lower[i], x.lower[i], squares);
    squares = fmaf(x.upper[i], x.upper[i], squares);
  }
  squares = warp_sum(squares);
  const float scale = rsqrtf(__fdividef(squares, static_cast<float>(head_dim)) + eps);
  const HeadValues w = load_head(weight, head_dim, lane);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x.lower[i] = x.lower[i] * scale * w.lower[i];
    x.upper[i] = x.upper[i] * scale * w.upper[i];
  }
}

/// cos and sin: the position's row of the tables.
__device__ __forceinline__ void rotate_head(HeadValues& x, const float* cos, const float* sin,
                                            int head_dim, int lane) {
  if (4 * lane >= head_dim / 2) return;
  const float4 c4 = *reinterpret_cast<const float4*>(cos + 4 * lane);
  const float4 s4 = *reinterpret_cast<const float4*>(sin + 4 * lane);
  const float c[4] = {c4.x, c4.y, c4.z, c4.w};
  const float s[4] = {s4.x, s4.y, s4.z, s4.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = x.lower[i];
    const float b = x.upper[i];
    x.lower[i] = fmaf(a, c[i], -(b * s[i]));
    x.upper[i] = fmaf(b, c[i], a * s[i]);
  }
}

/// Norms (where there are weights) and rotates.
__device__ __forceinline__ void norm_and_rotate(HeadValues& x, const AttentionArgs& args,
                                                const float* norm, int position, int lane) {
  if (norm != nullptr) norm_head(x, norm, args.norm_eps, args.head_dim, lane);
  const int64_t at = static_cast<int64_t>(position) * (args.head_dim / 2);
  rotate_head(x, args.rope_cos + at, args.rope_sin + at, args.head_dim, lane);
}

__device__ __forceinline__ void scale_head(HeadValues& x, float scale) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x.lower[i] *= scale;
    x.upper[i] *= scale;
  }
}

/// Divides by the scale with which the largest magnitude becomes that of the type; returns the
/// scale. NaN where a value isn't finite, so that whatever reads the token shows it; 0 where the
/// values vanish.
template <KvType kType>
__device__ __forceinline__ float take_scale(HeadValues& x) {
  float magnitude = 0;
  bool finite = true;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    finite = finite && fabsf(x.lower[i]) <= kLargestFloat && fabsf(x.upper[i]) <= kLargestFloat;
    magnitude = fmaxf(magnitude, fmaxf(fabsf(x.lower[i]), fabsf(x.upper[i])));
  }
  finite = __all_sync(kFullWarp, finite) != 0;
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    magnitude = fmaxf(magnitude, __shfl_xor_sync(kFullWarp, magnitude, apart));
  }
  const float scale = magnitude / (kType == KvType::kI8 ? 127.0f : 448.0f);
  const bool stays = finite && scale >= kSmallestNormal;
  const float inverse = 1.0f / scale;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x.lower[i] = stays ? x.lower[i] * inverse : 0.0f;
    x.upper[i] = stays ? x.upper[i] * inverse : 0.0f;
  }
  if (!finite) return __int_as_float(0x7fc00000);
  return stays ? scale : 0.0f;
}

/// Rounded to the nearest E4M3, ties to even; beyond 448 that. Not for NaN. In whole numbers, since
/// CUDA's own conversion goes through double before sm_89.
__device__ __forceinline__ uint32_t to_f8e4m3(float x) {
  constexpr uint32_t kLargest = 0x7e;    // 448
  constexpr int kDropped = 23 - 3;       // bits of the mantissa
  constexpr uint32_t kRebias = 127 - 7;  // of the exponent
  constexpr float kSmallestNormal8 = 0x1p-6f;
  constexpr float kSubnormals = 0x1p9f;  // in units of 2^-9
  const uint32_t bits = __float_as_uint(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1) + (magnitude >> kDropped & 1);
  const uint32_t normal = min((rounded >> kDropped) - (kRebias << 3), kLargest);
  const uint32_t subnormal = static_cast<uint32_t>(__float2int_rn(fabsf(x) * kSubnormals));
  return (bits >> 24 & 0x80u) | (fabsf(x) < kSmallestNormal8 ? subnormal : normal);
}

/// Four elements of the cache at `to`.
template <KvType kType>
__device__ __forceinline__ void store_elements(std::byte* to, const float (&x)[4]) {
  if constexpr (kType == KvType::kBF16) {
    *reinterpret_cast<uint2*>(to) = {pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3])};
  } else {
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t element;
      if constexpr (kType == KvType::kI8) {
        element = static_cast<uint32_t>(__float2int_rn(x[i])) & 0xffu;
      } else {
        element = to_f8e4m3(x[i]);
      }
      word |= element << (8 * i);
    }
    *reinterpret_cast<uint32_t*>(to) = word;
  }
}

/// Stores a head, with zeros from head_dim up to `end`; at(i) is the address of element i, a
/// multiple of 4.
template <KvType kType, typename At>
__device__ __forceinline__ void store_head(const HeadValues& x, int head_dim, int end, int lane,
                                           At at) {
  const int half = head_dim / 2;
  if (4 * lane < half) {
    store_elements<kType>(at(4 * lane), x.lower);
    store_elements<kType>(at(half + 4 * lane), x.upper);
  }
  for (int i = head_dim + 4 * lane; i < end; i += 4 * 32) {
    const float zeros[4] = {};
    store_elements<kType>(at(i), zeros);
  }
}

/// padded_head_dim() for the device.
__device__ __forceinline__ int cache_dims(int head_dim) {
  constexpr int kLanes = static_cast<int>(kKvLanes);
  return (head_dim + kLanes - 1) / kLanes * kLanes;
}

/// Position past the last one that a row sees; a padding row sees nothing.
__device__ __forceinline__ int row_limit(const AttentionArgs& args, int row) {
  return args.slot_mapping[row] < 0 ? 0 : args.positions[row] + 1;
}

/// Where a KV head of a block begins in a plane.
__device__ __forceinline__ uint64_t head_offset(const AttentionArgs& args, int block, int kv_head) {
  // 32-bit factors, for one instruction.
  return static_cast<uint64_t>(static_cast<uint32_t>(block)) *
             static_cast<uint32_t>(args.block_bytes) +
         static_cast<uint32_t>(kv_head) * static_cast<uint32_t>(args.head_bytes);
}

/// Where a KV head of a token lies in a plane of the cache.
template <KvType kType>
struct CachedToken {
  std::byte* elements;
  float* scale;  // 8-bit types only
};

template <KvType kType>
__device__ __forceinline__ CachedToken<kType> cached_token(const AttentionArgs& args,
                                                           std::byte* plane, int slot,
                                                           int kv_head) {
  const int row_bytes = cache_dims(args.head_dim) * kElementBytes<kType>;
  std::byte* head = plane + head_offset(args, slot / kKvBlockSize, kv_head);
  const int offset = slot % kKvBlockSize;
  float* scales = reinterpret_cast<float*>(head + kKvBlockSize * row_bytes);
  return {head + offset * row_bytes, scales + offset};
}

/// Appends what take_scale() and the norm have left of a token's head.
template <KvType kType>
__device__ __forceinline__ void append_token(const AttentionArgs& args, std::byte* plane, int slot,
                                             int kv_head, const HeadValues& x, float scale,
                                             int lane) {
  const CachedToken<kType> token = cached_token<kType>(args, plane, slot, kv_head);
  store_head<kType>(x, args.head_dim, cache_dims(args.head_dim), lane,
                    [&](int i) { return token.elements + i * kElementBytes<kType>; });
  if (kHasScales<kType> && lane == 0) *token.scale = scale;
}

// ---- 8-bit elements as BF16 ----

/// The elements in bytes kLow and kHigh of x, exact, kLow in the low half. E4M3's NaN is 480 here;
/// take_scale() leaves none.
template <KvType kType, int kLow, int kHigh>
__device__ __forceinline__ uint32_t widen(uint32_t x) {
  if constexpr (kType == KvType::kI8) {
    // 0x4300 is 128 and has a unit of 1: 128 + (lower 7 bits) - (128, or 256 if negative).
    const uint32_t u = __byte_perm(x, 0x43434343u, kLow | 0x40 | kHigh << 8 | 0x4000);
    return bits_of(__hsub2(as_bf16x2(u & 0xff7fff7fu), as_bf16x2(u & 0xff80ff80u)));
  } else {
    // The same fields, whose exponent has a bias of 7 instead of 127: 2^120 (0x7b80) times less.
    const uint32_t u = __byte_perm(x, 0u, 0x4 | kLow << 4 | 0x400 | kHigh << 12);
    const uint32_t small = (u & 0x80008000u) | (u >> 4 & 0x07f007f0u);
    return bits_of(__hmul2(as_bf16x2(small), as_bf16x2(0x7b807b80u)));
  }
}

// ---- Tiles in shared memory ----

/// Rows of kRowBytes, apart by 16 bytes more, so that 8 rows read by ldmatrix begin in different
/// banks.
template <int kRowBytes>
struct Tile {
  static constexpr int kPitch = kRowBytes + 16;

  std::byte* data;

  __device__ __forceinline__ std::byte* at(int row, int byte) const {
    return data + row * kPitch + byte;
  }
  /// The 16 bytes between this row and the next.
  __device__ __forceinline__ float* after_row(int row) const {
    return reinterpret_cast<float*>(at(row, kRowBytes));
  }
};

// ---- Launchers ----

inline constexpr int kMaxGridYZ = 65535;

/// The next larger head_dim that there are kernels for.
inline int instance_dims(int head_dim) {
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

/// f(dims, type) with the constants of the kernel that serves args.
template <typename Function>
void for_instance(const AttentionArgs& args, Function f) {
  const auto with_type = [&](auto dims) {
    switch (args.kv_type) {
      case KvType::kBF16:
        return f(dims, std::integral_constant<KvType, KvType::kBF16>());
      case KvType::kF8E4M3:
        return f(dims, std::integral_constant<KvType, KvType::kF8E4M3>());
      case KvType::kI8:
        return f(dims, std::integral_constant<KvType, KvType::kI8>());
    }
  };
  switch (instance_dims(args.head_dim)) {
    case 32:
      return with_type(std::integral_constant<int, 32>());
    case 64:
      return with_type(std::integral_constant<int, 64>());
    case 128:
      return with_type(std::integral_constant<int, 128>());
    default:
      return with_type(std::integral_constant<int, 256>());
  }
}

inline float query_scale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

/// Throws if the shape is none that the kernels serve.
inline void check_shape(const AttentionArgs& args, const char* launcher) {
  const bool heads_fit = args.num_kv_heads > 0 && args.num_heads % args.num_kv_heads == 0 &&
                         args.num_heads / args.num_kv_heads >= 1 &&
                         args.num_heads / args.num_kv_heads <= 8;
  const bool dims_fit = args.head_dim > 0 && args.head_dim <= 256 && args.head_dim % 8 == 0;
  if (!heads_fit || !dims_fit) check_cuda(cudaErrorInvalidValue, launcher);
}

}  // namespace llm::attention
