// llm tokenize: text to ids and back.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/line_editor.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pieces_table.h"
#include "cli/prompt_input.h"
#include "cli/terminal_text.h"
#include "cli/tokenize_chat.h"
#include "cli/tokenize_jsonl.h"
#include "cli/version.h"
#include "io/json.h"
#include "io/model_dir.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace llm {
namespace {

enum class Form { kIds, kPieces, kCount, kJson };

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  std::optional<std::string> file;
  std::optional<std::string> decode;
  std::optional<std::string> jsonl;
  TokenizeChatOptions chat;
  Form form = Form::kIds;
  bool plain = false;
  bool no_special = false;
  bool skip_special = false;
  bool quiet = false;
  bool verbose = false;
};

Log log_for(const TokenizeOptions& options) {
  if (options.quiet) return Log(Verbosity::kQuiet);
  return Log(options.verbose ? Verbosity::kVerbose : Verbosity::kNormal);
}

/// The tokenizer's folder, and the template that goes with it.
TemplateSource template_source(const TokenizeOptions& options, const Log& log) {
  const std::string name = chosen_model(options.model, log);
  return {.tokenizer_dir = resolve_model_dir(name, "tokenizer.json"),
          .name = name,
          .file = options.chat.chat_template};
}

Tokenizer load_tokenizer(const TemplateSource& source, const Log& log) {
  const std::filesystem::path path = source.tokenizer_dir / "tokenizer.json";
  Tokenizer tokenizer = Tokenizer::load(path);
  log.detail("{}: ids below {}", path.string(), tokenizer.num_ids());
  return tokenizer;
}

AddedTokens recognised(const TokenizeOptions& options) {
  if (options.plain) return AddedTokens::kNone;
  return options.no_special ? AddedTokens::kNonSpecial : AddedTokens::kAll;
}

std::string hex_of(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return out;
}

std::string json_text(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string pieces;
  for (const int32_t id : ids) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    pieces += fmt::format(R"({}{{"id":{},"text":{},"bytes_hex":"{}"}})", pieces.empty() ? "" : ",",
                          id, json_quote(replace_invalid_utf8(bytes)), hex_of(bytes));
  }
  // No model computes anything here, so most of "run" has no value.
  const std::string run = fmt::format(
      R"({{"version":{},"device":null,"isa":null,"act":null,"kv_dtype":null,"seed":null,)"
      R"("model_sha256":null}})",
      json_quote(version_number()));
  return fmt::format(R"({{"ids":[{}],"pieces":[{}],"count":{},"run":{}}})", fmt::join(ids, ","),
                     pieces, ids.size(), run) +
         "\n";
}

/// Ids separated by blanks or commas.
std::vector<int32_t> parse_ids(std::string_view text) {
  constexpr std::string_view kSeparators = " \t\r\n,";
  std::vector<int32_t> ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0) {
      refuse("--decode: \"{}\" is no id: expected whole numbers from 0 to {}, separated by blanks",
             printable(word), std::numeric_limits<int32_t>::max());
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

/// All bytes of `text`, the file or stdin, as they are.
std::string read_all(const std::optional<std::string>& text, const std::optional<std::string>& file,
                     const Log& log) {
  PromptInput input;
  input.prompt = text;
  input.file = file;
  input.read_stdin = !text && !file;
  input.read_terminal = true;
  input.raw = true;
  input.drop_newline = false;
  return read_prompt(input, log);
}

void write_pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  set_utf8_locale();  // for the widths of characters
  write_pieces_table(tokenizer, ids, stdout_is_terminal() && may_style_terminal(), write_stdout);
}

void write_tokens(Form form, const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  switch (form) {
    case Form::kIds:
      return write_stdout(fmt::format("{}\n", fmt::join(ids, " ")));
    case Form::kPieces:
      return write_pieces(tokenizer, ids);
    case Form::kCount:
      return write_stdout(fmt::format("{}\n", ids.size()));
    case Form::kJson:
      return write_stdout(json_text(tokenizer, ids));
  }
}

ExitCode decode(const TokenizeOptions& options, const Log& log) {
  const std::vector<int32_t> ids =
      parse_ids(*options.decode == "-" ? read_all({}, {}, log) : *options.decode);
  const Tokenizer tokenizer = load_tokenizer(template_source(options, log), log);
  write_stdout(tokenizer.decode(ids, options.skip_special));
  for (const int32_t id : ids) {
    if (tokenizer.has_token(id)) continue;
    log.warn("id {} has no token, so it gives no text", id);
    break;
  }
  return ExitCode::kOk;
}

ExitCode tokenize(const TokenizeOptions& options) {
  if (options.skip_special && !options.decode) {
    refuse("--skip-special goes with --decode (in --jsonl lines it is \"skip_special\")");
  }
  check_tokenize_chat_options(options.chat, options.jsonl.has_value());
  const Log log = log_for(options);
  if (options.chat.render) {
    write_stdout(render_template(options.chat, log));
    return ExitCode::kOk;
  }
  if (options.decode) return decode(options, log);
  const TemplateSource source = template_source(options, log);
  const Tokenizer tokenizer = load_tokenizer(source, log);
  if (options.jsonl) {
    const ChatLines chat(tokenizer, source, log);
    const auto answer = [&](std::string_view line) { return chat.answer(line); };
    return tokenize_jsonl(*options.jsonl, tokenizer, answer, log);
  }
  const std::vector<int32_t> ids =
      options.chat.messages
          ? tokenize_messages(options.chat, ChatRenderer(tokenizer, source, log), log)
          : tokenizer.encode_prompt(read_all(options.text, options.file, log), recognised(options));
  write_tokens(options.form, tokenizer, ids);
  return ExitCode::kOk;
}

}  // namespace

Action add_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  begin_section(app, "Model");
  refuse_empty(app.add_option("-m,--model", options->model,
                              "Folder with tokenizer.json, or hub id Owner/Name in the Hugging "
                              "Face cache (default: $LLM_MODEL, else the built-in model)"))
      ->type_name("DIR|NAME");
  begin_section(app, "Input: one of TEXT and these");
  CLI::Option* text = add_text(app, "TEXT", options->text, "",
                               "Text to tokenize, as it is; - or none: stdin to its end");
  CLI::Option* file =
      refuse_empty(add_text(app, "-f,--file", options->file, "FILE", "Text from a file"));
  CLI::Option* decode =
      add_text(app, "--decode", options->decode, "IDS",
               "Print the text of ids (\"9707 11\"; -: those on stdin), without a newline");
  CLI::Option* jsonl =
      refuse_empty(add_text(app, "--jsonl", options->jsonl, "FILE",
                            "One request a line ({\"text\", \"special\", \"plain\"}, {\"ids\", "
                            "\"skip_special\"}, {\"messages\", \"tools\", "
                            "\"add_generation_prompt\", \"enable_thinking\", "
                            "\"parse_special_in_content\"} or {\"template\", \"context\"}), one "
                            "answer a line; - is stdin"));
  const std::vector<CLI::Option*> chat_inputs = add_tokenize_chat_options(app, options->chat);
  CLI::Option* const messages = chat_inputs[0];
  CLI::Option* const render = chat_inputs[1];
  begin_section(app, "Output: one of these");
  const auto form = [&](const std::string& flag, Form chosen, const std::string& help) {
    return app.add_flag_callback(
        flag, [options, chosen] { options->form = chosen; }, help);
  };
  const std::vector<CLI::Option*> forms = {
      form("--ids", Form::kIds, "Print ids, separated by spaces (the default)"),
      form("--pieces", Form::kPieces, "Print a table: each token's id, text and bytes"),
      form("--count", Form::kCount, "Print the number of tokens"),
      form("--json", Form::kJson, "Print {\"ids\", \"pieces\", \"count\"}")};
  begin_section(app, "Control tokens");
  CLI::Option* plain =
      app.add_flag("--plain", options->plain, "Recognise no added token: <|im_end|> is just text");
  CLI::Option* no_special =
      app.add_flag("--no-special", options->no_special,
                   "Recognise only added tokens that aren't special, such as <think>");
  app.add_flag("--skip-special", options->skip_special, "With --decode: leave out special tokens");
  begin_section(app, "Messages");
  CLI::Option* quiet = app.add_flag("-q,--quiet", options->quiet, "No messages, only results");
  app.add_flag("-v,--verbose", options->verbose, "More messages")->excludes(quiet);

  const std::vector<CLI::Option*> sources = {text, file, decode, jsonl, messages, render};
  for (const std::vector<CLI::Option*>& only_one : {sources, forms}) {
    for (CLI::Option* option : only_one) {
      for (CLI::Option* other : only_one) {
        if (option != other) option->excludes(other);
      }
    }
  }
  plain->excludes(no_special);
  for (CLI::Option* option : {decode, jsonl, messages, render}) {
    option->excludes(plain)->excludes(no_special);
    if (option == messages) continue;
    for (CLI::Option* form : forms) option->excludes(form);
  }
  app.footer("llm tokenize -m DIR --pieces \"Hello, world\"");
  return [options] { return tokenize(*options); };
}

}  // namespace llm
