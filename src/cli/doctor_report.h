// What `llm doctor` finds out and prints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/cpu_info.h"

namespace llm {

/// The logits of one instruction set, against what they must be.
struct KnownAnswer {
  Isa isa;
  uint64_t hash;
  uint64_t expected;
};

struct DoctorOptions {
  bool json = false;
  bool measure = true;               // bandwidth and multiply speed
  std::filesystem::path root = "/";  // where /proc is; another place in tests
};

/// One fact: for a program `value`, a JSON text; for a person `text`.
struct DoctorFact {
  std::string key;
  std::string text;
  std::string value;
};

struct DoctorSection {
  std::string name;
  std::vector<DoctorFact> facts;
};

struct DoctorReport {
  std::vector<DoctorSection> sections;
  std::vector<std::string> problems;  // with what to do; empty: all is well
};

/// Looks at this machine and this build. The measurement takes about a second.
DoctorReport examine(const DoctorOptions& options);

/// The known answers as a section; a wrong one becomes a problem.
void add_answers(DoctorReport& report, const std::vector<KnownAnswer>& answers);

std::string doctor_table(const DoctorReport& report);
/// One JSON object: section by section, and "problems".
std::string doctor_json(const DoctorReport& report);

}  // namespace llm
