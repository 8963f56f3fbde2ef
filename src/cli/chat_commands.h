// The commands of a chat: a line that begins with a slash.
#pragma once

#include <string>
#include <string_view>

namespace llm {

enum class ChatCommand {
  kHelp,
  kClear,
  kSystem,
  kThink,
  kSave,
  kSaveOver,
  kLoad,
  kRegen,
  kStats,
  kSet,
  kFile,
  kExit,
};

/// What a person entered.
struct ChatEntry {
  enum class Kind {
    kMessage,  // text: the message
    kCommand,  // command, and text: its argument without blanks around it
    kMistake,  // text: what is wrong and what there is
  };
  Kind kind = Kind::kMessage;
  ChatCommand command = ChatCommand::kHelp;
  std::string text;
};

/// Takes a line apart: "/name argument" is a command, "//..." a message with one slash less,
/// everything else a message as it is. A text of several lines is always a message.
ChatEntry parse_entry(std::string_view text);

/// One line per command, and how messages of several lines are entered.
std::string chat_help();

}  // namespace llm
