// What every section measures with: clocks, memory full of random data, and the rows of the result.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/measure/probes.h"
#include "cuda/memory.h"
#include "cuda/step_graphs.h"

namespace llm::measure {

/// What the amount of a case is, and so what its value is in.
enum class Unit {
  kGbs,     // bytes -> 1e9 bytes per second
  kTflops,  // FLOP -> 1e12 per second
  kUs,      // nothing: the value is the time, in microseconds
  kMs,      // the same, in milliseconds
};

/// One row of the result.
struct Case {
  std::string name;
  std::string parameters;  // "m=1 n=4096 k=1024"
  double amount = 0;       // of one launch, or whatever is timed
  Unit unit = Unit::kUs;
};

/// Of one launch, in microseconds.
struct Times {
  double median_us = 0;
  double least_us = 0;
  double most_us = 0;
  int repetitions = 0;
};

/// What the function queues on the stream, as a graph.
GraphExec record_graph(cudaStream_t stream, const std::function<void()>& queue_all);

/// The pseudo-random order of 0 .. count - 1 in which caches lie.
int64_t scattered(int64_t i, int64_t count);

class Lab {
 public:
  /// Refuses (exit code 2) a file that can't be written. `small`: tiny shapes and one repetition,
  /// to rehearse on the emulator; its numbers mean nothing.
  Lab(const std::string& csv_path, bool small);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  bool small() const { return small_; }
  int multiprocessors() const { return multiprocessors_; }
  cudaStream_t stream() const { return stream_.get(); }
  const std::string& csv_path() const { return csv_path_; }
  void begin_section(const std::string& name);

  // ---- Measuring: the first case of a section is measured once more, for the noise ----

  /// A graph of `launches` launches, each queued by queue_one(i), replayed: the time of one.
  Times time_graph(const Case& what, int launches, const std::function<void(int)>& queue_one);
  /// What the function queues, between two events: for what takes longer than they do.
  Times time_queued(const Case& what, const std::function<void()>& queue_all);
  /// The function by the host's clock.
  Times time_host(const Case& what, const std::function<void()>& work);

  /// A line for whoever reads along: what is left out, and why.
  void note(const std::string& text);

  // ---- Memory ----

  /// Filled with random data.
  DeviceMemory memory(int64_t bytes, Fill fill);
  /// Zero-filled.
  DeviceMemory zeros(int64_t bytes);
  /// Whether there is room for so many bytes; else notes that `what` is left out.
  bool has_room(int64_t bytes, const std::string& what);
  /// How many buffers of this size are used in turn so that none of it is left in L2: four times
  /// its size altogether, but at most `most` buffers and at least one.
  int copies(int64_t bytes, int most = 256) const;

 private:
  /// Once more for the first case of a section.
  Times record(const Case& what, const std::function<std::vector<double>()>& measure);
  void write_row(const Case& what, const Times& times);
  int repetitions() const { return small_ ? 1 : 20; }
  /// Between two events.
  double timed_us(const std::function<void()>& queue_all);

  std::string csv_path_;
  bool small_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> csv_;
  std::string section_;
  bool is_first_ = true;
  Stream stream_;
  Event begin_, end_;
  int multiprocessors_ = 0;
  int64_t l2_bytes_ = 0;
  uint32_t seed_ = 1;
};

}  // namespace llm::measure
