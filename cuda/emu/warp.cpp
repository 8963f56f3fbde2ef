// What warp collectives compute; block_runner.cpp brings the lanes together.
#include "cuda/emu/warp.h"

#include <fmt/format.h>

#include <algorithm>

namespace llm::emu {
namespace {

/// Calls fn(lane) for the lanes of the mask.
template <typename Fn>
void for_lanes(const WarpOperands& lanes, Fn fn) {
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes.has(i)) fn(lanes.at<Exchange>(i));
  }
}

/// Folds the values as T and gives everybody the result.
template <typename T, typename Fold>
void reduce(const WarpOperands& lanes, T start, Fold fold) {
  T result = start;
  for_lanes(lanes,
            [&](const Exchange& lane) { result = fold(result, static_cast<T>(lane.value)); });
  for_lanes(lanes, [&](Exchange& lane) { lane.result = static_cast<uint32_t>(result); });
}

}  // namespace

void combine_shuffle(const WarpOperands& lanes) {
  for (int i = 0; i < kWarpSize; ++i) {
    if (!lanes.has(i)) continue;
    Exchange& lane = lanes.at<Exchange>(i);
    if (!lanes.has(lane.source)) {
      fail_thread(fmt::format("{}: lane {} reads lane {}, which is not in the mask {:#x}",
                              lanes.name, i, lane.source, lanes.mask),
                  lanes.place);
    }
    lane.result = lanes.at<Exchange>(lane.source).value;
  }
}

void combine_ballot(const WarpOperands& lanes) {
  uint32_t votes = 0;
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes.has(i) && lanes.at<Exchange>(i).flag) votes |= uint32_t{1} << i;
  }
  for_lanes(lanes, [&](Exchange& lane) { lane.result = votes; });
}

void combine_match_any(const WarpOperands& lanes) {
  for_lanes(lanes, [&](Exchange& lane) {
    for (int i = 0; i < kWarpSize; ++i) {
      if (lanes.has(i) && lanes.at<Exchange>(i).value == lane.value) {
        lane.result |= uint64_t{1} << i;
      }
    }
  });
}

void combine_match_all(const WarpOperands& lanes) {
  const int first = __builtin_ctz(lanes.mask);
  bool all = true;
  for_lanes(lanes, [&](const Exchange& lane) {
    all = all && lane.value == lanes.at<Exchange>(first).value;
  });
  for_lanes(lanes, [&](Exchange& lane) {
    lane.flag = all;
    lane.result = all ? lanes.mask : 0;
  });
}

void combine_sum(const WarpOperands& lanes) {
  reduce<uint32_t>(lanes, 0, [](uint32_t a, uint32_t b) { return a + b; });
}
void combine_and(const WarpOperands& lanes) {
  reduce<uint32_t>(lanes, kFullMask, [](uint32_t a, uint32_t b) { return a & b; });
}
void combine_or(const WarpOperands& lanes) {
  reduce<uint32_t>(lanes, 0, [](uint32_t a, uint32_t b) { return a | b; });
}
void combine_xor(const WarpOperands& lanes) {
  reduce<uint32_t>(lanes, 0, [](uint32_t a, uint32_t b) { return a ^ b; });
}
void combine_min_signed(const WarpOperands& lanes) {
  reduce<int32_t>(lanes, INT32_MAX, [](int32_t a, int32_t b) { return std::min(a, b); });
}
void combine_max_signed(const WarpOperands& lanes) {
  reduce<int32_t>(lanes, INT32_MIN, [](int32_t a, int32_t b) { return std::max(a, b); });
}
void combine_min_unsigned(const WarpOperands& lanes) {
  reduce<uint32_t>(lanes, UINT32_MAX, [](uint32_t a, uint32_t b) { return std::min(a, b); });
}
void combine_max_unsigned(const WarpOperands& lanes) {
  reduce<uint32_t>(lanes, 0, [](uint32_t a, uint32_t b) { return std::max(a, b); });
}

}  // namespace llm::emu
