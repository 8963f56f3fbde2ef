#include "cli/run_options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <utility>

#include "base/error.h"

namespace llm {
namespace {

constexpr int64_t kMaxLogprobs = 20;  // as OpenAI's API and vLLM allow

void add_input_options(CLI::App& app, RunOptions& o) {
  begin_section(app, "Input");
  app.add_option(
         "PROMPT", o.prompt,
         "The prompt; `-` = only stdin. PROMPT, -f and stdin (if no terminal) are joined by "
         "a blank line; with --raw by nothing")
      ->type_name("");
  refuse_empty(add_text(app, "-f,--file", o.file, "FILE", "Read the prompt from a file"));
  refuse_empty(add_text(app, "--messages", o.messages, "FILE",
                        "JSON: an array of messages, or {\"messages\", \"tools\"}"));
  add_text(app, "--token-ids", o.token_ids, "IDS", "The prompt as ids, \"1 2 3\"; implies --raw");
  app.add_flag("--raw", o.raw, "Plain completion: no chat template, nothing split off");
  app.add_flag(
      "--escape", o.escape,
      "Turn \\n \\t \\r \\\\ \\\" \\' \\xHH (a byte) \\uHHHH (a character, no surrogates) in "
      "PROMPT into what they stand for; anything else after a \\ stays as it is");
  app.add_flag("--keep-newline", o.keep_newline,
               "Keep the last newline of file and stdin (without --raw one is dropped)");
  app.add_flag("--strip-newline", o.strip_newline,
               "Drop the last newline of file and stdin (with --raw it is kept)");
  add_template_options(app, o.answer);
}

void add_jsonl_options(CLI::App& app, RunOptions& o) {
  begin_section(app, "Many requests at once");
  refuse_empty(add_text(
      app, "--jsonl", o.jsonl, "IN",
      "Answer every line of a file (`-`: stdin), {\"prompt\"|\"messages\"|\"token_ids\", \"id\"?, "
      "\"tools\"?, \"think\"?, \"max_tokens\"?, \"temperature\"?, \"top_k\"?, \"top_p\"?, "
      "\"min_p\"?, the penalties, \"stop\"?, \"seed\"?, \"ignore_eos\"?}, with the object of "
      "--json and the id; the other options say what a line leaves open"));
  refuse_empty(add_text(app, "-o,--out", o.out, "OUT", "Write there instead of stdout"));
  app.add_flag(
      "--resume", o.resume,
      "Go on: skip the ids that OUT has already (a line without one has its number, from 1)");
}

void check_jsonl_options(const RunOptions& o) {
  const auto needs_jsonl = [&](bool given, const char* flag) {
    if (given && !o.jsonl) refuse("{} goes with --jsonl", flag);
  };
  needs_jsonl(o.out.has_value(), "--out");
  needs_jsonl(o.resume, "--resume");
  if (o.resume && !o.out) refuse("--resume goes with --out");
  if (!o.jsonl) return;
  for (const auto& [flag, given] : {std::pair("a prompt (PROMPT or -f)", o.prompt || o.file),
                                    std::pair("--messages", o.messages.has_value()),
                                    std::pair("--token-ids", o.token_ids.has_value()),
                                    std::pair("--tools", o.answer.tools.has_value()),
                                    std::pair("--show-thinking", o.show_thinking),
                                    std::pair("--logits-out", o.logits_out.has_value()),
                                    std::pair("--trace-shapes", o.trace_shapes)}) {
    refuse_together(true, "--jsonl", given, flag);
  }
}

void add_output_options(CLI::App& app, RunOptions& o) {
  begin_section(app, "Output");
  app.add_flag("--show-thinking", o.show_thinking,
               "Print thoughts to stderr (otherwise not at all)");
  app.add_flag("--json", o.json, "Print one JSON object at the end instead of the text");
  add_integer(app, "--logprobs", o.logprobs, 0, kMaxLogprobs,
              "Show each generated token's log-probability and the N most probable tokens in its "
              "place, before penalties and temperature: in the JSON object, else as a table on "
              "stderr");
  app.add_flag("--print-ids", o.print_ids, "Print the ids of prompt and answer to stderr");
  app.add_flag("--stats", o.stats, "Print times and speeds to stderr");
  refuse_empty(add_text(app, "--logits-out", o.logits_out, "F.npy",
                        "Write the logits of every prompt position, float32 [tokens, vocab_size]"));
  app.add_flag("--trace-shapes", o.trace_shapes,
               "Print the shapes of one prefill and one decode step to stderr");
}

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  add_input_options(app, options);
  add_jsonl_options(app, options);
  add_stop_options(app, options.answer);
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on after the model's end-of-answer tokens");
  add_output_options(app, options);
  add_sampling_options(app, options.sampling);
  add_engine_options(app, options.engine);
  add_common_options(app, options.common);
  app.footer("llm run -m DIR --max-tokens 200 \"Name three rivers of Asia.\"");
}

void check_run_options(RunOptions& o) {
  check_answer_options(o.answer);
  check_engine_options(o.engine);
  check_jsonl_options(o);
  refuse_together(o.trace_shapes, "--trace-shapes", o.engine.draft.has_value(), "--draft");
  if (o.messages == "-") refuse("--messages -: expected a file (/dev/stdin is one)");
  const bool text = o.prompt || o.file;
  refuse_together(text, "a prompt (PROMPT or -f)", o.messages.has_value(), "--messages");
  refuse_together(text, "a prompt (PROMPT or -f)", o.token_ids.has_value(), "--token-ids");
  refuse_together(o.messages.has_value(), "--messages", o.token_ids.has_value(), "--token-ids");
  refuse_together(o.messages.has_value(), "--messages", o.answer.system.has_value(), "--system");
  refuse_together(o.keep_newline, "--keep-newline", o.strip_newline, "--strip-newline");
  if (o.token_ids) {
    parse_token_ids(*o.token_ids);
    o.raw = true;
  }
  const char* raw = o.token_ids ? "--token-ids" : "--raw";
  refuse_together(o.raw, raw, o.messages.has_value(), "--messages");
  refuse_together(o.raw, raw, o.answer.system.has_value(), "--system");
  refuse_together(o.raw, raw, o.answer.chat_template.has_value(), "--chat-template");
  refuse_together(o.raw, raw, o.answer.tools.has_value(), "--tools");
  refuse_together(o.raw, raw, o.answer.think_budget.has_value(), "--think-budget");
  refuse_together(o.raw, raw, o.answer.think != Think::kAuto, "--think");
  refuse_together(o.raw, raw, o.answer.parse_special_in_content, "--parse-special-in-content");
  // Text that isn't an answer may well repeat itself.
  if (o.raw || o.ignore_eos) o.answer.loop_guard = false;
}

std::vector<int32_t> parse_token_ids(const std::string& text) {
  std::vector<int32_t> ids;
  size_t begin = 0;
  while ((begin = text.find_first_not_of(" \t\r\n,", begin)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(" \t\r\n,", begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::optional<int64_t> id = parse_integer(part);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      refuse("--token-ids: \"{}\" is not a token id (expected whole numbers from 0 on)", part);
    }
    ids.push_back(static_cast<int32_t>(*id));
    begin = end;
  }
  if (ids.empty()) refuse("--token-ids: no ids given");
  return ids;
}

}  // namespace llm
