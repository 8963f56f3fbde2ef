// llm_gpu_measure: measurements of the GPU part, one CSV row each (scripts/gpu_check.sh).
#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cuda/measure/sections.h"

namespace llm::measure {
namespace {

struct Section {
  std::string_view name;
  void (*measure)(Lab&);
};
constexpr Section kSections[] = {{"ceilings", measure_ceilings}, {"step", measure_step},
                                 {"gemv", measure_gemv},         {"attention", measure_attention},
                                 {"many", measure_many},         {"load", measure_load}};

std::string usage() {
  std::string names;
  for (const Section& section : kSections) names += fmt::format(" {}", section.name);
  return fmt::format(
      "usage: llm_gpu_measure [--small] OUT.csv SECTION...\nsections:{}\n"
      "--small: tiny shapes, to rehearse on the emulator; the numbers mean nothing\n",
      names);
}

std::vector<Section> chosen_sections(const std::vector<std::string>& names) {
  std::vector<Section> sections;
  for (const std::string& name : names) {
    const Section* found = nullptr;
    for (const Section& section : kSections) {
      if (section.name == name) found = &section;
    }
    if (found == nullptr) refuse("no section \"{}\"\n{}", name, usage());
    sections.push_back(*found);
  }
  return sections;
}

/// False where a section failed; the others are measured all the same.
bool measure_all(Lab& lab, const std::vector<Section>& sections) {
  bool all = true;
  for (const Section& section : sections) {
    try {
      lab.begin_section(std::string(section.name));
      section.measure(lab);
    } catch (const std::exception& error) {
      fmt::print(stderr, "llm_gpu_measure: {}: {}\n", section.name, error.what());
      all = false;
    }
  }
  return all;
}

int run(std::vector<std::string> args) {
  bool small = false;
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) {
    fmt::print("{}", usage());
    return 0;
  }
  if (!args.empty() && args[0] == "--small") {
    small = true;
    args.erase(args.begin());
  }
  if (args.size() < 2 || args[0].starts_with('-')) refuse("{}", usage());
  const std::string path = args[0];
  args.erase(args.begin());
  const std::vector<Section> sections = chosen_sections(args);
  Lab lab(path, small);
  return measure_all(lab, sections) ? 0 : 1;
}

}  // namespace
}  // namespace llm::measure

int main(int argc, char** argv) {
  try {
    return llm::measure::run({argv + 1, argv + argc});
  } catch (const llm::Error& error) {
    fmt::print(stderr, "llm_gpu_measure: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "llm_gpu_measure: {}\n", error.what());
    return 1;
  }
}
