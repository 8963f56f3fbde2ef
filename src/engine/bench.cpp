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

/// Other ids for every request of every repetition, the same ids for the same seed.
std::vector<int32_t> random_ids(const BenchPlan& plan, int64_t request, int64_t num_ids) {
  std::vector<int32_t> ids(static_cast<size_t>(plan.depth + plan.prompt_len));
  const uint64_t first = static_cast<uint64_t>(request) * ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool shared = plan.shared_depth && i < static_cast<size_t>(plan.depth);
    const uint64_t counter = shared ? i : first + i;
    ids[i] = static_cast<int32_t>(uniform(plan.seed, counter) * static_cast<double>(num_ids));
  }
  return ids;
}

/// A batch of requests on its way, and when their first and last ids came.
class TimedBatch {
 public:
  TimedBatch(Engine& engine, const BenchPlan& plan, int64_t rep, int64_t num_ids)
      : engine_(engine) {
    for (int64_t i = 0; i < plan.batch; ++i) {
      Request request;
      request.prompt_ids = random_ids(plan, rep * plan.batch + i, num_ids);
      request.max_tokens = plan.gen_len;
      request.num_ids = num_ids;
      if (!plan.shared_depth) request.prefill_cut = plan.depth;
      requests_.push_back({engine.add(std::move(request)), 0, 0});
    }
  }

  void fill_to(int64_t depth) {
    while (any([&](const Sequence& s) { return s.num_cached_tokens() < depth; })) engine_.step();
  }

  BenchRep run() {
    BenchRep rep;
    start_ = Clock::now();
    while (any([](const Sequence& s) { return s.in_prefill(); })) step();
    rep.prefill = now_;
    run_full_steps(rep);
    while (engine_.has_work()) step();
    rep.num_ids = num_ids();
    for (const Timed& request : requests_) {
      const int64_t ids = request.sequence->output_length();
      rep.num_proposed += request.sequence->num_proposed();
      rep.num_accepted += request.sequence->num_accepted();
      if (ids > 0) rep.ttft.push_back(request.first);
      if (ids > 1)
        rep.tpot.push_back((request.last - request.first) / static_cast<double>(ids - 1));
    }
    return rep;
  }

 private:
  struct Timed {
    std::shared_ptr<const Sequence> sequence;
    double first;  // seconds after the start
    double last;
  };

  template <typename Condition>
  bool any(const Condition& condition) const {
    return std::any_of(requests_.begin(), requests_.end(),
                       [&](const Timed& r) { return condition(*r.sequence); });
  }

  void step() {
    const auto advanced = engine_.step();
    now_ = seconds_since(start_);
    for (const auto& sequence : advanced) {
      const auto timed = std::find_if(requests_.begin(), requests_.end(),
                                      [&](const Timed& r) { return r.sequence == sequence; });
      timed->last = now_;
      if (sequence->output_length() == 1) timed->first = now_;
    }
  }

  /// The steps up to the first end of a sequence; there may be none.
  void run_full_steps(BenchRep& rep) {
    const double start = now_;
    const int64_t ids = num_ids();
    int64_t steps = 0;
    for (; !any([](const Sequence& s) { return s.finished(); }); ++steps) step();
    if (steps == 0) return;
    rep.decode_step = (now_ - start) / static_cast<double>(steps);
    rep.ids_per_decode_step = static_cast<double>(num_ids() - ids) / static_cast<double>(steps);
  }

  int64_t num_ids() const {
    int64_t sum = 0;
    for (const Timed& request : requests_) sum += request.sequence->output_length();
    return sum;
  }

  Engine& engine_;
  std::vector<Timed> requests_;
  Clock::time_point start_;
  double now_ = 0;  // after the latest step, seconds after the start
};

BenchRep run_once(Engine& engine, Backend& backend, const BenchPlan& plan, int64_t rep,
                  int64_t num_ids, Observer* observer) {
  TimedBatch batch(engine, plan, rep, num_ids);
  if (!plan.shared_depth) batch.fill_to(plan.depth);
  backend.set_observer(observer);
  const BenchRep result = batch.run();
  backend.set_observer(nullptr);
  return result;
}

}  // namespace

BenchResult run_bench(Engine& engine, Backend& backend, const BenchPlan& plan, int64_t num_ids,
                      const std::function<void(int64_t done, int64_t all)>& on_rep) {
  LLM_CHECK(plan.prompt_len > 0 && plan.gen_len >= 0 && plan.depth >= 0);
  BenchResult result;
  StageTimes stages;
  const int64_t timed_end = plan.warmup + plan.reps;
  for (int64_t i = 0; i <= timed_end; ++i) {
    on_rep(i, timed_end + 1);
    const BenchRep rep =
        run_once(engine, backend, plan, i, num_ids, i == timed_end ? &stages : nullptr);
    if (i >= plan.warmup && i < timed_end) result.reps.push_back(rep);
    result.observed_decode_step = rep.decode_step.value_or(0);
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
