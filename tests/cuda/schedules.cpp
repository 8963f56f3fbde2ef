#include "cuda/emu/observer.h"
#include "cuda_test.h"

namespace llm {

std::vector<EmulatedSchedule> all_schedules() {
  using emu::Order;
  std::vector<EmulatedSchedule> all{
      {"forward, late copies", {.order = Order::kForward, .strict = true}},
      {"reverse, early copies",
       {.order = Order::kReverse, .late_copies = false, .lazy_streams = true}},
  };
  // The race build finds what it finds in any order.
  if (emu::has_observer()) return all;
  all.push_back({"forward, early copies", {.order = Order::kForward, .late_copies = false}});
  all.push_back({"reverse, late copies", {.order = Order::kReverse}});
  for (const uint64_t seed : {1, 2, 3}) {
    all.push_back({"random order " + std::to_string(seed),
                   {.order = Order::kRandom, .seed = seed, .late_copies = seed != 2}});
  }
  return all;
}

}  // namespace llm
