// The emulator's proof: three correct kernels run right in every schedule, and each seeded fault is
// found, by the layer that the table below names.
#include <doctest/doctest.h>

#include <memory>

#include "cuda/emu/observer.h"
#include "cuda/emu/sanitizer.h"
#include "emu_child.h"
#include "proof_data.h"

namespace llm {
namespace {

using MakeCase = std::unique_ptr<ProofCase> (*)();

/// What finds a fault.
enum class Layer {
  kValues,     // wrong results in at least one schedule
  kReport,     // the emulator's checks
  kRaceBuild,  // `make race`
};

struct SeededFault {
  MakeCase make;
  Fault fault;
  std::string name;
  Layer layer;
  const char* report;  // of kReport: what it says
};

const std::vector<SeededFault>& seeded_faults() {
  static const std::vector<SeededFault> faults{
      {make_norm_case, Fault::kMissingBarrier, "missing barrier", Layer::kValues, nullptr},
      {make_norm_case, Fault::kSharedOutOfBounds, "write past shared memory", Layer::kReport,
       "shared memory was written past the end of warp_sums"},
      {make_norm_case, Fault::kGlobalOutOfBounds, "write past device memory", Layer::kReport,
       "memory was written past the end of a device allocation of 2000 bytes"},
      {make_norm_case, Fault::kNonAtomicUpdate, "non-atomic update by blocks", Layer::kRaceBuild,
       nullptr},
      {make_gemm_case, Fault::kMissingBarrier, "missing barrier after a wait", Layer::kValues,
       nullptr},
      {make_gemm_case, Fault::kWeakAsyncWait, "too weak async wait", Layer::kValues, nullptr},
      {make_gemm_case, Fault::kBufferOverwrite, "double-buffer overwrite", Layer::kValues, nullptr},
      {make_gemm_case, Fault::kSharedOutOfBounds, "ldmatrix past shared memory", Layer::kReport,
       "aren't in one array of shared memory"},
      {make_attention_case, Fault::kMissingWarpSync, "missing warp sync", Layer::kValues, nullptr},
      {make_attention_case, Fault::kShuffleAsWarpSync, "shuffle as warp sync", Layer::kRaceBuild,
       nullptr},
      {make_attention_case, Fault::kNonAtomicUpdate, "non-atomic counter", Layer::kRaceBuild,
       nullptr},
      {make_attention_case, Fault::kMissingFence, "missing fence", Layer::kRaceBuild, nullptr},
      {make_attention_case, Fault::kFrozenScalar, "frozen scalar in a graph", Layer::kValues,
       nullptr},
  };
  return faults;
}

struct Findings {
  int schedules = 0;
  int wrong_values = 0;
  int reported = 0;
  std::string first_report;
};

Findings run_all(const SeededFault& seeded) {
  Findings findings;
  for (const EmulatedSchedule& schedule : all_schedules()) {
    const emu::Session session(schedule.settings);
    ++findings.schedules;
    try {
      if (!seeded.make()->run(seeded.fault)) ++findings.wrong_values;
    } catch (const std::exception&) {
      // A launch that the emulator failed; it says why below.
    }
    cudaDeviceSynchronize();
    if (session.reports().empty()) continue;
    if (findings.reported++ == 0) findings.first_report = session.reports().front();
  }
  return findings;
}

}  // namespace

TEST_CASE("cuda proof: correct kernels are right in every schedule, and nothing is reported") {
  for (const MakeCase make : {make_norm_case, make_gemm_case, make_attention_case}) {
    const std::unique_ptr<ProofCase> proof = make();
    CAPTURE(std::string(proof->name()));
    for_each_schedule([&] { CHECK(proof->run(Fault::kNone)); });
  }
}

TEST_CASE("cuda proof: every seeded fault is found") {
  for (const SeededFault& seeded : seeded_faults()) {
    CAPTURE(seeded.name);
    // AddressSanitizer ends the program there: the next test.
    if (emu::kAddressSanitizer && seeded.layer == Layer::kReport) continue;
    const Findings findings = run_all(seeded);
    CAPTURE(findings.first_report);
    // Shown by --success: the table of faults.
    INFO(std::string(seeded.make()->name()), ", ", seeded.name, ": wrong values in ",
         findings.wrong_values, ", reports in ", findings.reported, " of ", findings.schedules,
         " schedules");
    if (emu::has_observer()) {
      // Values are right by chance, or unknown: the first report ends the launch.
      CHECK(findings.reported + findings.wrong_values > 0);
      if (seeded.layer == Layer::kRaceBuild) CHECK(findings.reported == findings.schedules);
      continue;
    }
    if (seeded.layer == Layer::kValues) CHECK(findings.wrong_values > 0);
    if (seeded.layer == Layer::kReport) {
      CHECK(findings.reported == findings.schedules);
      CHECK(findings.first_report.find(seeded.report) != std::string::npos);
    }
  }
}

// ---- AddressSanitizer ends the program at the first fault ----

namespace {

void run_once(MakeCase make, Fault fault) {
  const emu::Session session({});
  make()->run(fault);
}

}  // namespace

TEST_CASE("cuda proof child: past shared memory" * doctest::skip()) {
  run_once(make_norm_case, Fault::kSharedOutOfBounds);
}
TEST_CASE("cuda proof child: past device memory" * doctest::skip()) {
  run_once(make_norm_case, Fault::kGlobalOutOfBounds);
}

TEST_CASE("cuda proof: AddressSanitizer or UBSan names the line of an access out of bounds") {
  if (!emu::kAddressSanitizer) return;
  for (const char* const name : {"past shared memory", "past device memory"}) {
    const ChildResult child = run_skipped_test(std::string("cuda proof child: ") + name);
    CAPTURE(child.output);
    CHECK(child.crashed);
    CHECK((child.output.find("AddressSanitizer") != std::string::npos ||
           child.output.find("runtime error") != std::string::npos));
    CHECK(child.output.find("proof_norm.cu") != std::string::npos);
  }
}

}  // namespace llm
