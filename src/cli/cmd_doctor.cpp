// llm doctor: what this machine and this build are, and whether they compute right.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/doctor_report.h"
#include "cli/output.h"

namespace llm {

Action add_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  app.add_flag("--json", options->json, "One JSON object");
  app.add_flag("!--no-speed", options->measure, "Don't measure the machine's speed");
  app.footer("llm doctor > report.txt");
  return [options] {
    const DoctorReport report = examine(*options);
    // The environment is part of the report, and a terminal must not obey it.
    write_stdout(options->json ? doctor_json(report) : escape_controls(doctor_table(report)));
    return report.problems.empty() ? ExitCode::kOk : ExitCode::kFailed;
  };
}

}  // namespace llm
