// The commands of ChatSession.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "cli/chat_session.h"
#include "cli/counted.h"
#include "cli/run_report.h"
#include "io/output_file.h"

namespace llm {
namespace {

constexpr const char* kUnlimited = "unlimited";  // what /set shows and takes for lengths

std::string limit_text(const std::optional<int64_t>& limit) {
  return limit ? std::to_string(*limit) : std::string(kUnlimited);
}

/// "~/notes" as a shell would have it; there is none here.
std::string expanded(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (!path.starts_with("~/") || home == nullptr) return path;
  return home + path.substr(1);
}

}  // namespace

bool ChatSession::handle_command(ChatCommand command, const std::string& argument) {
  switch (command) {
    case ChatCommand::kHelp:
      show(chat_help());
      return true;
    case ChatCommand::kClear:
      conversation_.clear();
      attached_.clear();
      last_length_ = 0;
      log_->info("a new conversation{}", conversation_.system() ? " (same system message)" : "");
      return true;
    case ChatCommand::kSystem:
      command_system(argument);
      return true;
    case ChatCommand::kThink:
      command_think(argument);
      return true;
    case ChatCommand::kSave:
      command_save(expanded(argument), /*replace=*/false);
      return true;
    case ChatCommand::kSaveOver:
      command_save(expanded(argument), /*replace=*/true);
      return true;
    case ChatCommand::kLoad:
      command_load(expanded(argument));
      return true;
    case ChatCommand::kRegen:
      command_regen();
      return true;
    case ChatCommand::kStats:
      show(stats());
      return true;
    case ChatCommand::kSet:
      command_set(argument);
      return true;
    case ChatCommand::kFile:
      command_file(expanded(argument));
      return true;
    case ChatCommand::kExit:
      return false;
  }
  return true;
}

void ChatSession::command_system(const std::string& argument) {
  if (argument.empty()) {
    const std::optional<std::string> system = conversation_.system();
    show(system ? "system message: " + *system : "there is no system message");
  } else if (argument == "-") {
    conversation_.set_system(std::nullopt);
    log_->info("no system message from the next answer on");
  } else {
    conversation_.set_system(argument);
    log_->info("the system message counts from the next answer on");
  }
}

void ChatSession::command_think(const std::string& argument) {
  if (argument.empty()) return show("thinking: " + std::string(name_of(options_.answer.think)));
  const std::optional<Think> think = parse_think(argument);
  if (!think) refuse("/think {}: expected on, off or auto", argument);
  options_.answer.think = *think;
  log_->info("thinking: {}", argument);
  warn_greedy_thinking(*think, options_.sampling, *log_);
}

void ChatSession::command_set(const std::string& argument) {
  if (argument.empty()) return show(settings());
  const size_t blank = std::min(argument.find_first_of(" \t"), argument.size());
  const std::string name = argument.substr(0, blank);
  const size_t begin = argument.find_first_not_of(" \t", blank);
  if (begin == std::string::npos) refuse("/set {}: expected a value after the name", name);
  if (argument.substr(begin) == kUnlimited && (name == "max-tokens" || name == "think-budget")) {
    AnswerOptions& answer = options_.answer;
    (name == "max-tokens" ? answer.max_tokens : answer.think_budget).reset();
    return show(settings());
  }

  // The command line's own options, so that names, ranges and messages are the same.
  ChatOptions changed = options_;
  CLI::App app;
  app.set_help_flag();
  add_sampling_options(app, changed.sampling);
  app.remove_option(app.get_option("--greedy"));
  add_length_options(app, changed.answer);
  add_seed_option(app, changed.common.seed);
  if (app.get_option_no_throw("--" + name) == nullptr) {
    std::string names;
    for (const CLI::Option* option : app.get_options()) names += " " + option->get_lnames().front();
    refuse("/set {}: no such setting; there are:{}", name, names);
  }
  changed.sampling.greedy &= name != "temp";
  app.parse(std::vector<std::string>{"--" + name + "=" + argument.substr(begin)});
  resolve_sampling(changed.sampling, files_->generation, 0);  // refuses what can't be used
  options_ = std::move(changed);
  if (name == "seed") {
    seed_ = *options_.common.seed;
    num_answers_ = 0;
  }
  log_->info("{}: {}", name, argument.substr(begin));
  warn_greedy_thinking(options_.answer.think, options_.sampling, *log_);
}

std::string ChatSession::settings() const {
  const SamplingParams p = resolve_sampling(options_.sampling, files_->generation, seed_);
  return fmt::format(
      "temp {}\ntop-k {}\ntop-p {}\nmin-p {}\nrepetition-penalty {}\npresence-penalty {}\n"
      "frequency-penalty {}\nseed {}\nmax-tokens {}\nthink-budget {}\n",
      p.temperature, p.top_k, p.top_p, p.min_p, p.repetition_penalty, p.presence_penalty,
      p.frequency_penalty, seed_, limit_text(options_.answer.max_tokens),
      limit_text(options_.answer.think_budget));
}

void ChatSession::command_save(const std::string& path, bool replace) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(there)) refuse("{}: is a folder", path);
  if (std::filesystem::exists(there)) require_regular_file(path);  // a pipe could wait forever
  if (!replace && std::filesystem::exists(there)) {
    refuse("{}: exists already; /save! {} replaces it", path, path);
  }
  OutputFile file(path);
  file.write(conversation_.to_json());
  file.commit();
  log_->info("{} saved in {}", counted(conversation_.num_messages(), "message"), path);
}

void ChatSession::command_load(const std::string& path) {
  require_regular_file(path);
  MessagesFile file = read_messages("/load", path, *log_);
  Conversation loaded(file.messages, file.tools ? file.tools : conversation_.tools());
  // What the template refuses is better known now, with the old conversation still there.
  if (loaded.num_messages() > 0) {
    prompter_->make(loaded.visible(), loaded.tools(), options_.answer.think);
  }
  conversation_ = std::move(loaded);
  log_->info("{} loaded from {}{}", counted(conversation_.num_messages(), "message"), path,
             conversation_.awaits_answer() ? "; /regen answers the last one" : "");
  say_open_call();
}

void ChatSession::command_regen() {
  Conversation before = conversation_;
  if (!conversation_.take_back_answer()) refuse("there is no message yet to answer again");
  if (resolve_sampling(options_.sampling, files_->generation, 0).temperature == 0 &&
      !before.awaits_answer()) {
    log_->info("(without randomness the answer stays the same; /set temp 0.7 changes that)");
  }
  try {
    answer();
  } catch (const Error&) {
    conversation_ = std::move(before);
    throw;
  }
  // Stopped before there was an answer: the old one is better than none.
  if (last_->interrupted && last_->content.empty() && last_->tool_calls.empty()) {
    conversation_ = std::move(before);
  }
  say_open_call();
}

void ChatSession::command_file(const std::string& path) {
  require_regular_file(path);
  std::string text = read_named_text("/file", path, *log_);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  const auto bytes = static_cast<int64_t>(text.size());
  attached_ += (attached_.empty() ? "" : "\n\n") + text;
  log_->info("{} ({}) goes with the next message", path, counted(bytes, "byte"));
}

std::string ChatSession::stats() const {
  std::string text = last_ ? run_stats(*last_) : std::string("no answer yet\n");
  return text + fmt::format("conversation: {}, {} of {} tokens of the context in use\n",
                            counted(conversation_.num_turns(), "turn"), last_length_,
                            engine_->options().scheduler.context);
}

}  // namespace llm
