// Rigged models with Qwen3's chat template, for tests of `llm chat`.
#pragma once

#include <string>
#include <vector>

#include "checkpoint_maker.h"

namespace llm {

/// The ids that chains are made of (tests/checkpoint_maker.h says what a chain is). A chain starts
/// with the last token of a prompt.
namespace id {
inline constexpr int32_t kNewline = 198;      // ends a prompt with thinking left to the model
inline constexpr int32_t kTwoNewlines = 271;  // ends a prompt with thinking off
inline constexpr int32_t kHello = 9707;
inline constexpr int32_t kDone = 17453;
inline constexpr int32_t kThink = 151667;
inline constexpr int32_t kEndThink = 151668;
inline constexpr int32_t kEnd = 151645;
}  // namespace id

/// A model that answers this chain, in a fresh folder of that name below build/test-data.
std::string chat_model(const char* name, const std::vector<int32_t>& chain, bool loop = false);

/// Thinks "Hello" and answers "Done"; with thinking off it only answers "Done".
std::string thinking_model(const char* name);

/// With thinking off: answers "HelloDone", blank line, "HelloDone", blank line, without end.
std::string endless_model(const char* name);

}  // namespace llm
