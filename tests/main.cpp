// The test program: doctest's own, and as the last line "N passed, N failed, N skipped", in tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "test_report.h"

namespace {

struct Counts {
  int passed = 0;
  int failed = 0;
  std::vector<std::string> skipped;
  std::vector<std::string> golden_files;
  bool current_skipped = false;
};

Counts& counts() {
  static Counts instance;
  return instance;
}

struct CountListener : doctest::IReporter {
  explicit CountListener(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override { counts().current_skipped = false; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.failure_flags != 0) {
      ++counts().failed;
    } else if (!counts().current_skipped) {
      ++counts().passed;
    }
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

DOCTEST_REGISTER_LISTENER("counts", 1, CountListener);

}  // namespace

void llm::note_skipped(std::string_view name) {
  if (!counts().current_skipped) counts().skipped.emplace_back(name);
  counts().current_skipped = true;
}

void llm::note_golden_file(std::string_view file, int passed, int failed, int skipped) {
  counts().golden_files.push_back("golden " + std::string(file) + ": " + std::to_string(passed) +
                                  " lines passed, " + std::to_string(failed) + " failed, " +
                                  std::to_string(skipped) + " skipped");
}

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (context.shouldExit()) return status;
  const Counts& c = counts();
  for (const std::string& line : c.golden_files) std::printf("%s\n", line.c_str());
  for (const std::string& name : c.skipped) std::printf("skipped: %s\n", name.c_str());
  std::printf("%d passed, %d failed, %zu skipped\n", c.passed, c.failed, c.skipped.size());
  return status;
}
