#include "cli/engine_options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <utility>

#include "base/error.h"
#include "cli/options.h"

namespace llm {
namespace {

constexpr const char* kNgram = "ngram";
constexpr int64_t kDefaultSpecK = 8;
constexpr int64_t kMaxSpecK = 64;
constexpr int64_t kMaxNumSeqs = 4096;

}  // namespace

void add_engine_options(CLI::App& app, EngineFlags& flags) {
  begin_section(app, "Engine (none of this changes the answer)");
  refuse_empty(add_text(app, "--draft", flags.draft, "MODEL|ngram",
                        "Guess tokens with a small model of the same vocabulary, or by look-up in "
                        "the text so far, and verify them together"));
  add_integer(app, "--spec-k", flags.spec_k, 1, kMaxSpecK,
              "With --draft: most guesses at once; fewer where they turn out wrong (default: 8)");
  app.add_flag("--no-prefix-cache", flags.no_prefix_cache,
               "Compute every prompt anew, also where an earlier one began alike");
}

void add_batch_options(CLI::App& app, EngineFlags& flags) {
  add_integer(app, "--max-num-seqs", flags.max_num_seqs, 1, kMaxNumSeqs,
              "Requests that are answered at the same time (default: 16)");
  add_integer(app, "--kv-blocks", flags.kv_blocks, 1, std::numeric_limits<int32_t>::max(),
              "Blocks of 16 tokens in the cache of keys and values (default: what all requests "
              "need, or fits the memory)");
}

void check_engine_options(const EngineFlags& flags) {
  if (flags.spec_k && !flags.draft) refuse("--spec-k goes with --draft");
}

std::unique_ptr<Engine> make_engine(LoadedModel& model, const ModelFiles& files,
                                    EngineOptions options, const EngineFlags& flags,
                                    const Log& log) {
  options.scheduler.prefix_cache = !flags.no_prefix_cache;
  if (flags.kv_blocks) options.num_cache_tokens = *flags.kv_blocks * kKvBlockSize;
  std::unique_ptr<Proposer> proposer;
  if (flags.draft) {
    options.scheduler.max_proposals = flags.spec_k.value_or(kDefaultSpecK);
    options.scheduler.fit_batched_tokens();
    if (*flags.draft == kNgram) {
      proposer = std::make_unique<NgramProposer>();
    } else {
      Decoder& draft = model.load_draft(*flags.draft, files, options.scheduler.context, log);
      proposer = std::make_unique<DraftProposer>(
          draft, BlockManager::blocks_for(options.num_cache_tokens), options.kv_dtype);
    }
  }
  return std::make_unique<Engine>(model.decoder(), options, std::move(proposer));
}

}  // namespace llm
