// A conversation with a loaded model: turns, commands and what is said about both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/answer_loop.h"
#include "cli/answer_options.h"
#include "cli/chat_commands.h"
#include "cli/chat_prompt.h"
#include "cli/chat_signals.h"
#include "cli/conversation.h"
#include "cli/engine_options.h"
#include "cli/line_source.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace llm {

struct ChatOptions {
  CommonOptions common;
  SamplingOptions sampling;
  AnswerOptions answer;
  EngineFlags engine;
  bool show_thinking = false;  // where stdin is no terminal
  bool hide_thinking = false;  // where it is one
  bool stats = false;          // after each answer
};

class ChatSession {
 public:
  /// All but the options outlive the session. `signals` is null where stdin is no terminal: then a
  /// mistake ends the chat, instead of being said.
  ChatSession(ChatOptions options, const ModelFiles& files, const ChatPrompter& prompter,
              LoadedModel& model, int64_t context, uint64_t seed, ChatSignals* signals,
              const Log& log);

  /// From the next answer on. Call before run().
  void offer_tools(const Value& tools) { conversation_.set_tools(tools); }

  /// Reads and answers until the input ends or the person leaves.
  void run(LineSource& lines);

 private:
  Line next_entry(LineSource& lines);
  /// False when the chat ends.
  bool handle(const ChatEntry& entry);
  bool handle_command(ChatCommand command, const std::string& argument);

  void send(const std::string& text);
  void answer();
  Prompt fitting_prompt();
  Request make_request(const Prompt& prompt);
  void keep_answer(const RunResult& result);
  void say_open_call() const;

  void command_system(const std::string& argument);
  void command_think(const std::string& argument);
  void command_set(const std::string& argument);
  void command_save(const std::string& path, bool replace);
  void command_load(const std::string& path);
  void command_regen();
  void command_file(const std::string& path);
  std::string stats() const;
  std::string settings() const;

  bool interactive() const { return signals_ != nullptr; }
  /// What was asked for: goes to stderr, whatever -q says.
  void show(std::string_view text) const;

  ChatOptions options_;
  const ModelFiles* files_;
  const ChatPrompter* prompter_;
  LoadedModel* model_;
  ChatSignals* signals_;
  const Log* log_;
  std::unique_ptr<Engine> engine_;
  uint64_t seed_;
  uint64_t num_answers_ = 0;
  Conversation conversation_;
  std::string attached_;  // files for the next message
  std::optional<RunResult> last_;
  int64_t last_length_ = 0;  // tokens of the last prompt and answer
};

}  // namespace llm
