// For tests of the sampling kernels: rows of logits of every kind with what is sampled from them,
// and their run on the device.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "cuda/sample_rows.h"
#include "cuda_test.h"

namespace llm {

struct SampleCase {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> output_ids;
  int64_t num_ids = 0;   // 0: no row
  bool pending = false;  // the last output id is known on the device alone

  SampleRow row() const { return {&params, prompt_ids, output_ids, num_ids}; }
};

/// What comes out of a case: an id, or the message of an error.
struct Outcome {
  int32_t id = 0;
  std::string error;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

std::string to_string(const Outcome& outcome);
doctest::String toString(const Outcome& outcome);

/// Logits that are normal, flat, peaked, tied, mostly masked, or zeros of both signs.
std::vector<float> random_logits(std::mt19937& random, int width);
/// Any parameters, seen ids, and number of ids.
SampleCase random_case(std::mt19937& random, int width);

/// By sample_row().
Outcome expected_outcome(const SampleCase& sampled);

/// The cases' arrays on the device, and scratch memory. Every case has `width` logits.
class SampleBatch {
 public:
  SampleBatch(const std::vector<SampleCase>& cases, int width);
  /// In the scratch memory of another, which is as large or larger.
  SampleBatch(const std::vector<SampleCase>& cases, int width, std::byte* scratch);

  /// Launches, and gives what became of each case. Checks that the logits are as they were.
  std::vector<Outcome> sample();
  /// After sample(): what launch_logprobs() leaves, for cases with num_top from 0.
  std::vector<RowLogprobs> logprobs(const std::vector<int32_t>& num_top);

  std::byte* scratch() { return scratch_; }

 private:
  SampleArgs args();

  int width_;
  std::vector<float> host_logits_;
  std::vector<IdCount> host_penalised_;
  std::vector<int32_t> host_input_ids_;
  std::vector<DeviceSampleRow> host_rows_;
  DeviceArray<float> logits_;
  DeviceArray<DeviceSampleRow> rows_;
  DeviceArray<IdCount> penalised_;
  DeviceArray<int32_t> input_ids_;
  DeviceArray<SampledId> sampled_;
  DeviceArray<std::byte> own_scratch_;
  std::byte* scratch_;
};

}  // namespace llm
