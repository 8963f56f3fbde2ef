#include "cli/engine_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/size_text.h"
#include "io/model_dir.h"

namespace llm {
namespace {

constexpr const char* kNgram = "ngram";
constexpr int64_t kDefaultSpecK = 8;
constexpr int64_t kMaxSpecK = 64;
constexpr int64_t kMaxBlockSize = 1024;
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

/// Fits the chunks in which prompts are computed into what the limit leaves beside the rows of
/// decoding sequences.
void limit_batched_tokens(SchedulerOptions& scheduler, int64_t most) {
  const int64_t room = (most - scheduler.most_decode_rows()) / kKvBlockSize * kKvBlockSize;
  if (room < kKvBlockSize) {
    refuse("--max-num-batched-tokens {}: --max-num-seqs {}{} needs at least {}", most,
           scheduler.max_num_seqs,
           scheduler.max_proposals > 0 ? fmt::format(" with --spec-k {}", scheduler.max_proposals)
                                       : "",
           scheduler.most_decode_rows() + kKvBlockSize);
  }
  scheduler.prefill_chunk = std::min(scheduler.prefill_chunk, room);
  scheduler.max_num_batched_tokens = most;
}

StepSize step_size(const EngineFlags& flags, const Load& load) {
  SchedulerOptions scheduler{.max_num_seqs = flags.max_num_seqs.value_or(load.num_seqs)};
  if (flags.draft) scheduler.max_proposals = flags.spec_k.value_or(kDefaultSpecK);
  scheduler.fit_batched_tokens();
  const int64_t rows = flags.max_num_batched_tokens.value_or(scheduler.max_num_batched_tokens);
  return {.rows = std::max(rows, load.prompt_logits),
          .logits = scheduler.most_decode_rows() + load.prompt_logits};
}

}  // namespace

void add_engine_options(CLI::App& app, EngineFlags& flags) {
  begin_section(app, "Engine (none of this changes the answer; on a GPU with --invariant)");
  refuse_empty(add_text(app, "--draft", flags.draft, "MODEL|ngram",
                        "Guess tokens with a small model of the same vocabulary, or by look-up in "
                        "the text so far, and verify them together"));
  add_integer(app, "--spec-k", flags.spec_k, 1, kMaxSpecK,
              "With --draft: most guesses at once; fewer where they turn out wrong (default: 8)");
  add_integer(app, "--max-num-seqs", flags.max_num_seqs, 1, kMaxNumSeqs,
              "Requests that are answered at the same time (default: 16, or all of --batch)");
  add_integer(app, "--max-num-batched-tokens", flags.max_num_batched_tokens, 1, kMaxInt,
              "Most tokens of one step; longer prompts are computed in several (default: 512 "
              "beside those that all requests generate)");
  add_integer(app, "--kv-blocks", flags.kv_blocks, 1, kMaxInt,
              "Blocks in the cache of keys and values; where they run out, the latest request "
              "waits (default: what all requests need, or fits the memory)");
  add_integer(app, "--block-size", flags.block_size, kKvBlockSize, kMaxBlockSize,
              "Tokens in a block, which is taken and shared as a whole: a multiple of 16 "
              "(default: 16)");
  app.add_flag("--no-prefix-cache", flags.no_prefix_cache,
               "Compute every prompt anew, also where an earlier one began alike");
}

void check_engine_options(const EngineFlags& flags) {
  if (flags.spec_k && !flags.draft) refuse("--spec-k goes with --draft");
  if (flags.block_size && *flags.block_size % kKvBlockSize != 0) {
    refuse("--block-size {}: expected a multiple of {}", *flags.block_size, kKvBlockSize);
  }
}

ContextRequest cache_request(const CommonOptions& common, const ModelFiles& files,
                             const EngineFlags& flags, const Load& load) {
  const DType dtype = common.device.cache_dtype();
  ContextRequest request{.ctx = common.ctx,
                         .kv_bytes_per_token = kv_bytes_per_token(files.config, dtype)};
  std::optional<ModelConfig> draft;
  if (flags.draft && *flags.draft != kNgram) {
    draft = load_model_config(resolve_model_dir(*flags.draft));
    refuse_unfit_draft(*flags.draft, *draft, files, common.device);
    request.kv_bytes_per_token += kv_bytes_per_token(*draft, dtype);
  }
  request.available_bytes =
      memory_for_cache(files, common.device, step_size(flags, load), draft ? &*draft : nullptr);
  if (common.device.device == Device::kCuda)
    request.way_out = ", or use --device cpu, which has the machine's memory";
  const int64_t tokens = flags.cache_tokens().value_or(0);
  if (tokens > request.available_bytes / request.kv_bytes_per_token) {
    refuse("--kv-blocks {} needs {}, but {} are available: give fewer{}", *flags.kv_blocks,
           size_text(tokens * request.kv_bytes_per_token), size_text(request.available_bytes),
           request.way_out);
  }
  return request;
}

std::unique_ptr<Engine> make_engine(LoadedModel& model, const ModelFiles& files,
                                    EngineOptions options, const EngineFlags& flags,
                                    const Log& log) {
  SchedulerOptions& scheduler = options.scheduler;
  if (flags.no_prefix_cache) scheduler.prefix_cache = false;
  scheduler.block_size = flags.tokens_per_block();
  if (const auto tokens = flags.cache_tokens()) {
    options.num_cache_tokens = *tokens;
    scheduler.context = std::min(scheduler.context, *tokens);
  }
  if (flags.draft) scheduler.max_proposals = flags.spec_k.value_or(kDefaultSpecK);
  if (flags.max_num_batched_tokens) {
    limit_batched_tokens(scheduler, *flags.max_num_batched_tokens);
  } else {
    scheduler.fit_batched_tokens();
  }
  std::unique_ptr<Proposer> proposer;
  if (flags.draft) {
    if (*flags.draft == kNgram) {
      scheduler.first_proposals = scheduler.max_proposals;  // guesses that cost nothing to make
      proposer = std::make_unique<NgramProposer>();
    } else {
      Decoder& draft = model.load_draft(*flags.draft, files, scheduler.context, log);
      proposer = std::make_unique<DraftProposer>(draft, options.num_kv_blocks(), options.kv_dtype);
    }
  }
  return std::make_unique<Engine>(model.decoder(), options, std::move(proposer));
}

}  // namespace llm
