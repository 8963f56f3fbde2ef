// What a call refuses with, for tests of messages.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace llm {

/// The message that the call refuses (exit code 2) with; empty if it doesn't.
inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
  return {};
}

inline void check_contains(const std::string& text, const std::string& part) {
  INFO("\"", part, "\" in: ", text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace llm
