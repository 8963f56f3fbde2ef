#include "sample_rows_maker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace llm {
namespace {

template <typename T>
T one_of(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

/// All logits, one case after the other.
std::vector<float> all_logits(const std::vector<SampleCase>& cases) {
  std::vector<float> all;
  for (const SampleCase& one : cases) all.insert(all.end(), one.logits.begin(), one.logits.end());
  return all;
}

}  // namespace

std::string to_string(const Outcome& outcome) {
  return outcome.error.empty() ? std::to_string(outcome.id) : outcome.error;
}

doctest::String toString(const Outcome& outcome) { return to_string(outcome).c_str(); }

std::vector<float> random_logits(std::mt19937& random, int width) {
  std::normal_distribution<float> normal;
  const float scale = one_of(random, {0.01f, 1.0f, 3.0f, 30.0f});
  const uint32_t kind = random() % 6;
  std::vector<float> logits(static_cast<size_t>(width));
  for (float& x : logits) {
    x = scale * normal(random);
    if (kind == 1) x = static_cast<float>(random() % 3) - 1;        // ties
    if (kind == 2) x = random() % 2 ? 0.0f : -0.0f;                 // equal zeros
    if (kind == 3 && random() % 10 != 0) x = -INFINITY;             // masked
    if (kind == 4) x = random() % 50 == 0 ? 12.0f + x / 8 : x / 4;  // peaks
  }
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return x == -INFINITY; })) {
    logits[0] = 1;
  }
  return logits;
}

SampleCase random_case(std::mt19937& random, int width) {
  SampleCase one;
  one.logits = random_logits(random, width);
  one.num_ids = random() % 3 == 0 ? 1 + random() % static_cast<uint32_t>(width) : width;
  one.params.temperature = one_of(random, {0.0f, 0.3f, 0.7f, 1.0f, 2.5f, 1e-30f, 1e10f});
  one.params.top_k = one_of<int64_t>(random, {0, 0, -1, 1, 2, 20, 33, 64, 65, 500, 1 << 30});
  one.params.top_p = one_of(random, {1.0f, 1.0f, 0.95f, 0.8f, 0.5f, 0.01f, 1e-30f});
  one.params.min_p = one_of(random, {0.0f, 0.0f, 0.05f, 0.5f, 1.0f});
  one.params.repetition_penalty = one_of(random, {1.0f, 1.0f, 1.3f, 0.5f});
  one.params.presence_penalty = one_of(random, {0.0f, 0.0f, 1.5f, -2.0f});
  one.params.frequency_penalty = one_of(random, {0.0f, 0.0f, 0.4f});
  one.params.seed = random();
  const auto some_ids = [&](std::vector<int32_t>& ids) {
    ids.resize(random() % 40);
    // Few ids, so that they come twice, and some that no token has.
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(width + 2));
    if (random() % 2) std::fill(ids.begin(), ids.end(), ids.empty() ? 0 : ids[0]);
  };
  some_ids(one.prompt_ids);
  some_ids(one.output_ids);
  one.pending = !one.output_ids.empty() && random() % 2 != 0;
  return one;
}

Outcome expected_outcome(const SampleCase& sampled) {
  if (sampled.num_ids == 0) return {};
  try {
    return {id_of(sample_row(sampled.logits, sampled.row())), ""};
  } catch (const Error& error) {
    return {0, error.what()};
  }
}

SampleBatch::SampleBatch(const std::vector<SampleCase>& cases, int width)
    : SampleBatch(cases, width, nullptr) {}

SampleBatch::SampleBatch(const std::vector<SampleCase>& cases, int width, std::byte* scratch)
    : width_(width),
      host_logits_(all_logits(cases)),
      host_input_ids_(cases.size(), -1),
      host_rows_(cases.size()),
      logits_(host_logits_),
      rows_(cases.size()),
      penalised_([&] {
        for (size_t i = 0; i < cases.size(); ++i) {
          SampleCase known = cases[i];
          if (known.pending) {
            host_input_ids_[i] = known.output_ids.back();
            known.output_ids.pop_back();
          }
          SampleRow row = known.row();
          row.logits_row = static_cast<int64_t>(i);
          row.input_is_output = known.pending;
          host_rows_[i] = device_sample_row(row, host_penalised_);
        }
        host_penalised_.push_back({});  // an array of at least one
        return host_penalised_;
      }()),
      input_ids_(host_input_ids_),
      sampled_(cases.size()),
      own_scratch_(scratch ? 1 : sample_scratch_bytes(static_cast<int>(cases.size()), width)),
      scratch_(scratch ? scratch : own_scratch_.data()) {
  rows_.set(host_rows_);
  own_scratch_.fill(0);
}

SampleArgs SampleBatch::args() {
  SampleArgs args;
  args.sampled = sampled_.data();
  args.logits = logits_.data();
  args.rows = rows_.data();
  args.penalised = penalised_.data();
  args.input_ids = input_ids_.data();
  args.num_rows = static_cast<int>(host_rows_.size());
  args.width = width_;
  args.scratch = scratch_;
  return args;
}

std::vector<Outcome> SampleBatch::sample() {
  sampled_.fill(0xff);
  input_ids_.set(host_input_ids_);
  launch_sample(args(), nullptr);
  const std::vector<SampledId> sampled = sampled_.host();
  const std::vector<float> logits = logits_.host();
  CHECK(std::memcmp(logits.data(), host_logits_.data(), logits.size() * sizeof(float)) == 0);
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < sampled.size(); ++i) {
    try {
      outcomes.push_back({id_of(sampled[i]), ""});
    } catch (const Error& error) {
      outcomes.push_back({0, error.what()});
    }
  }
  return outcomes;
}

std::vector<RowLogprobs> SampleBatch::logprobs(const std::vector<int32_t>& num_top) {
  std::vector<DeviceSampleRow> rows = host_rows_;
  for (size_t i = 0; i < rows.size(); ++i) rows[i].num_top = num_top[i];
  rows_.set(rows);
  DeviceArray<RowLogprobs> out(rows.size());
  out.fill(0x55);
  launch_logprobs(out.data(), args(), nullptr);
  std::vector<RowLogprobs> result = out.host();
  rows_.set(host_rows_);
  return result;
}

}  // namespace llm
