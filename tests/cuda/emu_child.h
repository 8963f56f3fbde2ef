// Tests that end the process, in a child: a test case of this program that is skipped otherwise.
#pragma once

#include <string>

namespace llm {

struct ChildResult {
  bool crashed = false;  // ended by a signal, or by a sanitizer
  std::string output;    // both streams
};

/// Runs the test case of this name, declared with doctest::skip().
ChildResult run_skipped_test(const std::string& name);

}  // namespace llm
