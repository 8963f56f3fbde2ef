// The messages of a chat.
#include "cli/conversation.h"

#include <doctest/doctest.h>

#include "cli/chat_prompt.h"
#include "io/json.h"

namespace llm {
namespace {

/// "system:S user:a assistant:b"
std::string summary(const Value& messages) {
  std::string text;
  for (const Value& message : messages.as_list().items) {
    text += (text.empty() ? "" : " ") + message.find("role")->as_string() + ":" +
            message.find("content")->as_string();
  }
  return text;
}

Conversation three_turns() {
  Conversation c;
  c.set_system("S");
  for (const char* turn : {"1", "2", "3"}) {
    c.add_user(std::string("u") + turn);
    c.add_assistant(std::string("a") + turn, std::nullopt);
  }
  return c;
}

TEST_CASE("conversation: turns and the system message") {
  Conversation c = three_turns();
  CHECK(summary(c.visible()) ==
        "system:S user:u1 assistant:a1 user:u2 assistant:a2 user:u3 "
        "assistant:a3");
  CHECK(c.num_turns() == 3);
  CHECK_FALSE(c.awaits_answer());
  c.set_system("T");
  CHECK(c.system() == "T");
  c.set_system(std::nullopt);
  CHECK_FALSE(c.system());
  CHECK(c.num_messages() == 6);
  c.set_system("U");
  c.clear();
  CHECK(summary(c.visible()) == "system:U");
  CHECK_FALSE(c.awaits_answer());
}

TEST_CASE("conversation: taking back a turn or an answer") {
  Conversation c = three_turns();
  CHECK(c.take_back_answer());
  CHECK(c.awaits_answer());
  CHECK(summary(c.visible()).ends_with("user:u3"));
  c.take_back();
  CHECK(summary(c.visible()).ends_with("assistant:a2"));
  Conversation empty;
  CHECK_FALSE(empty.take_back_answer());
  empty.take_back();
  CHECK(empty.num_messages() == 0);
}

TEST_CASE("conversation: hidden turns are kept but not shown") {
  Conversation c = three_turns();
  c.hide_turns(1);
  CHECK(summary(c.visible()) == "system:S user:u2 assistant:a2 user:u3 assistant:a3");
  c.hide_turns(2);
  CHECK(summary(c.visible()) == "system:S user:u3 assistant:a3");
  CHECK(c.num_turns() == 3);
  CHECK(c.to_json().find("u1") != std::string::npos);
  c.take_back();  // at least one turn stays in sight
  CHECK(summary(c.visible()) == "system:S user:u2 assistant:a2");
}

TEST_CASE("conversation: what comes before the first turn goes with it") {
  const Value messages = parse_json_value(
      R"([{"role": "system", "content": "S"}, {"role": "assistant", "content": "hello"},
          {"role": "user", "content": "u1"}, {"role": "assistant", "content": "a1"},
          {"role": "tool", "content": "t1"}, {"role": "user", "content": "u2"}])",
      "test");
  Conversation c(messages);
  CHECK(c.awaits_answer());
  c.hide_turns(1);
  CHECK(summary(c.visible()) == "system:S user:u2");
}

TEST_CASE("conversation: JSON keeps everything") {
  Conversation c;
  c.add_user("say \"hi\"\n\x01\xe4\xb8\xad");
  c.add_assistant("hi", "a thought");
  const JsonValue json = parse_json(c.to_json(), "to_json");
  const auto& messages = json.find("messages")->array;
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].find("content")->string == "say \"hi\"\n\x01\xe4\xb8\xad");
  CHECK(messages[1].find("reasoning_content")->string == "a thought");
  CHECK(json.find("tools") == nullptr);
  const Value tools = parse_json_value(R"([{"name": "f"}])", "test");
  const Conversation with_tools(parse_json_value("[]", "test"), tools);
  CHECK(parse_json(with_tools.to_json(), "to_json").find("tools")->array.size() == 1);
}

TEST_CASE("conversation: tool calls wait for their results") {
  Conversation c;
  c.add_user("u");
  c.add_assistant("", "why", {{"f", R"({"a": 1})"}, {"g", "{}"}}, 5);
  CHECK(c.open_calls() == std::vector<std::string>{"f", "g"});
  c.add_tool_result("1");
  CHECK(c.open_calls() == std::vector<std::string>{"g"});
  c.add_tool_result("2");
  CHECK(c.open_calls().empty());
  CHECK(c.awaits_answer());
  CHECK(c.num_turns() == 1);
  const JsonValue json = parse_json(c.to_json(), "conversation");
  const std::vector<JsonValue>& messages = json.find("messages")->array;
  const JsonValue& call = messages[1].find("tool_calls")->array[1];
  CHECK(call.find("id")->string == "call_6");
  CHECK(call.find("function")->find("arguments")->is_object());
  CHECK(messages[2].find("tool_call_id")->string == "call_5");
  CHECK(messages[3].find("name")->string == "g");
  c.take_back();  // the results first
  CHECK(c.open_calls().size() == 2);
  c.take_back();
  CHECK(c.num_messages() == 0);
  CHECK(c.open_calls().empty());
}

}  // namespace
}  // namespace llm
