#include "cuda/emu/schedule.h"

#include <algorithm>
#include <numeric>

#include "cuda/emu/thread.h"

namespace llm::emu {
namespace {

/// splitmix64: a stream of random numbers from any seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

  template <typename Iterator>
  void shuffle(Iterator begin, Iterator end) {
    for (auto n = end - begin; n > 1; --n) {
      std::iter_swap(begin + (n - 1), begin + static_cast<int64_t>(next() % n));
    }
  }

 private:
  uint64_t state_;
};

}  // namespace

std::vector<int64_t> block_order(const Settings& settings, int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (settings.order == Order::kReverse) std::reverse(order.begin(), order.end());
  if (settings.order == Order::kRandom) Random(settings.seed).shuffle(order.begin(), order.end());
  return order;
}

void thread_order(const Settings& settings, int64_t block, int num_threads,
                  std::vector<int>& order) {
  order.resize(num_threads);
  std::iota(order.begin(), order.end(), 0);
  if (settings.order == Order::kReverse) std::reverse(order.begin(), order.end());
  if (settings.order != Order::kRandom) return;

  Random random(settings.seed * 0x100000001b3 + static_cast<uint64_t>(block) + 1);
  std::vector<int> warps((num_threads + kWarpSize - 1) / kWarpSize);
  std::iota(warps.begin(), warps.end(), 0);
  random.shuffle(warps.begin(), warps.end());
  auto out = order.begin();
  for (const int warp : warps) {
    const int begin = warp * kWarpSize;
    const int end = std::min(begin + kWarpSize, num_threads);
    std::iota(out, out + (end - begin), begin);
    random.shuffle(out, out + (end - begin));
    out += end - begin;
  }
}

int ReadySet::first_after(int rank) const {
  const int word = rank >> 6;
  const uint64_t above = words_[word] & ~uint64_t{0} << (rank & 63) << 1;
  if (above != 0) return word * 64 + __builtin_ctzll(above);
  const unsigned higher = nonzero_ & ~0U << word << 1;
  if (higher == 0) return first();
  const int next = __builtin_ctz(higher);
  return next * 64 + __builtin_ctzll(words_[next]);
}

}  // namespace llm::emu
