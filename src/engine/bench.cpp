#include "engine/bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace llm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Other ids in every repetition, the same ids for the same seed.
std::vector<int32_t> random_ids(const BenchPlan& plan, int64_t rep, int64_t num_ids) {
  std::vector<int32_t> ids(static_cast<size_t>(plan.depth + plan.prompt_len));
  const uint64_t first = static_cast<uint64_t>(rep) * ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(uniform(plan.seed, first + i) * static_cast<double>(num_ids));
  }
  return ids;
}

BenchRep run_once(Engine& engine, Backend& backend, const BenchPlan& plan,
                  std::vector<int32_t> prompt, int64_t num_ids, Observer* observer) {
  Request request;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = plan.gen_len;
  request.num_ids = num_ids;
  request.prefill_cut = plan.depth;
  const auto sequence = engine.add(std::move(request));
  while (sequence->num_cached_tokens() < plan.depth) engine.step();

  backend.set_observer(observer);
  BenchRep rep;
  const Clock::time_point start = Clock::now();
  while (sequence->in_prefill()) engine.step();
  rep.prefill = seconds_since(start);
  if (plan.gen_len > 0) rep.ttft = rep.prefill;
  const Clock::time_point first = Clock::now();
  while (!sequence->finished()) engine.step();
  if (plan.gen_len > 1) rep.tpot = seconds_since(first) / static_cast<double>(plan.gen_len - 1);
  backend.set_observer(nullptr);
  return rep;
}

}  // namespace

BenchResult run_bench(LoadedModel& model, const BenchPlan& plan, DType kv_dtype, int64_t num_ids,
                      const std::function<void(int64_t done, int64_t all)>& on_rep) {
  LLM_CHECK(plan.prompt_len > 0 && plan.gen_len >= 0 && plan.depth >= 0);
  Engine engine(model.decoder(),
                {.scheduler = {.context = plan.context(), .max_num_seqs = 1, .prefix_cache = false},
                 .num_cache_tokens = plan.context(),
                 .kv_dtype = kv_dtype});
  BenchResult result;
  StageTimes stages;
  const int64_t timed_end = plan.warmup + plan.reps;
  for (int64_t i = 0; i <= timed_end; ++i) {
    on_rep(i, timed_end + 1);
    const BenchRep rep = run_once(engine, model.backend(), plan, random_ids(plan, i, num_ids),
                                  num_ids, i == timed_end ? &stages : nullptr);
    if (i >= plan.warmup && i < timed_end) result.reps.push_back(rep);
  }
  on_rep(timed_end + 1, timed_end + 1);
  result.stages = stages.totals();
  result.num_decode_steps = stages.num_decode_steps();
  result.kv_bytes = engine.cache().spec().total_bytes();
  result.peak_bytes = peak_memory();
  return result;
}

Summary summarize(std::vector<double> values) {
  LLM_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const size_t rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(n)));
  return {std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n),
          (values[(n - 1) / 2] + values[n / 2]) / 2, values[rank - 1]};
}

int64_t peak_memory() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;  // kilobytes on Linux
}

}  // namespace llm
