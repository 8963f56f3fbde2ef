// Options of how the engine works, which never change what is answered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/options.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/session.h"

namespace CLI {
class App;
}

namespace llm {

struct EngineFlags {
  std::optional<std::string> draft;  // a model, or "ngram"
  std::optional<int64_t> spec_k;
  bool no_prefix_cache = false;
  std::optional<int64_t> max_num_seqs;
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> kv_blocks;
  std::optional<int64_t> block_size;

  int64_t tokens_per_block() const { return block_size.value_or(kKvBlockSize); }
  /// For which the cache is to have room; nothing without --kv-blocks.
  std::optional<int64_t> cache_tokens() const {
    return kv_blocks ? std::optional(*kv_blocks * tokens_per_block()) : std::nullopt;
  }
};

/// What is asked of the engine at once.
struct Load {
  int64_t num_seqs = 1;       // requests, where --max-num-seqs doesn't say
  int64_t prompt_logits = 0;  // rows of a step for which these are wanted
};

/// For --max-num-seqs.
inline constexpr int64_t kMaxNumSeqs = 4096;

/// --draft, --spec-k, --max-num-seqs, --max-num-batched-tokens, --kv-blocks, --block-size and
/// --no-prefix-cache.
void add_engine_options(CLI::App& app, EngineFlags& flags);

/// Refuses (exit code 2) options without the one they belong to.
void check_engine_options(const EngineFlags& flags);

/// What decides about the context, but for the tokens that are wanted: --ctx, the keys and values
/// of the model and of its draft, and the memory that there is for them.
ContextRequest cache_request(const CommonOptions& common, const ModelFiles& files,
                             const EngineFlags& flags, const Load& load);

/// An engine for the loaded model, with its draft model if there is one. Refuses (exit code 2) a
/// draft that doesn't go with the model. `options` has everything but what the flags say; the model
/// outlives the engine.
std::unique_ptr<Engine> make_engine(LoadedModel& model, const ModelFiles& files,
                                    EngineOptions options, const EngineFlags& flags,
                                    const Log& log);

}  // namespace llm
