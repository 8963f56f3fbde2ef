// `llm chat` at a keyboard: editing, pasting, interrupts and what the screen shows.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "chat_models.h"
#include "cli/line_editor.h"
#include "io/json.h"
#include "terminal_session.h"
#include "test_data.h"

namespace llm {
namespace {

using Args = std::vector<std::string>;

constexpr const char* kControlC = "\x03";
constexpr const char* kControlD = "\x04";
constexpr const char* kUp = "\x1b[A";
constexpr const char* kLeft = "\x1b[D";
constexpr const char* kBackspace = "\x7f";

TerminalCall call_for(const std::string& model, const Args& more = {}) {
  TerminalCall call;
  call.args = {"chat", "-m", model};
  call.args.insert(call.args.end(), more.begin(), more.end());
  const std::filesystem::path state = std::filesystem::absolute(model).parent_path() / "state";
  call.environment = {"XDG_STATE_HOME=" + state.string(), "NO_COLOR=", "LC_ALL=C.UTF-8"};
  return call;
}

/// The content of message `index` of the conversation, which the chat saves for that.
std::string message(TerminalSession& session, const std::string& model, size_t index) {
  const std::string path = (std::filesystem::path(model).parent_path() / "saved.json").string();
  std::filesystem::remove(path);
  session.type("/save " + path + "\r");
  const bool saved = session.wait_until([&] { return std::filesystem::exists(path); });
  if (!saved || !session.shows_at_end("\n>")) return "not saved";
  const JsonValue json = read_json_file(path);
  const auto& messages = json.find("messages")->array;
  return index < messages.size() ? messages[index].find("content")->string : "no such message";
}

std::string golden(const char* name) {
  std::ifstream file(std::string("tests/goldens/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The screen without its first line, which names the model's folder.
std::string conversation_on(const VtScreen& screen) {
  const std::string text = screen.text();
  return text.substr(text.find("\n>") + 1);
}

TEST_CASE("screen model: wrapping, erasing, inserting") {
  REQUIRE(set_utf8_locale());
  VtScreen screen(3, 5);
  screen.write("abcdefg\r\nxy\x1b[1@Z\x1b[D\x1b[2P\x1b[2m!\x1b[0m");
  CHECK(screen.text() == "abcde\nfg\nxy{!}\n");
  screen.write("\x1b[A\r\xe4\xb8\xad\xcc\x81\x1b[K\n\n\n.");
  CHECK(screen.text() == "abcde\n\xe4\xb8\xad\xcc\x81\nxy{!}\n\n  .\n");
  CHECK(screen.unknown().empty());
  screen.write("\x1b[9z");
  CHECK(screen.unknown() == "z");
}

TEST_CASE("chat on a terminal: a conversation") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-a-conversation");
  LLM_SKIP_WITHOUT_DATA("chat-terminal");
  const std::string model = thinking_model("chat-terminal");
  TerminalSession session(call_for(model));
  REQUIRE(session.shows_at_end("\n>"));
  CHECK(session.screen().bracketed_paste());
  session.type("hi\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  session.type("/nope\r");
  REQUIRE(session.shows_at_end("two.\n>"));
  session.type("/think off\r");
  REQUIRE(session.shows_at_end("off\n>"));
  session.type("again\\\r");
  REQUIRE(session.shows_at_end("\n."));
  session.type("and again\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  session.type(kControlD);
  CHECK(session.exit_code() == 0);
  CHECK_FALSE(session.screen().bracketed_paste());
  CHECK(session.screen().unknown().empty());
  CHECK(conversation_on(session.screen()) == golden("chat_xterm.txt"));
}

TEST_CASE("chat on a dumb terminal: the same conversation without escape codes") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-the-same-conversation-without-escape-cod");
  LLM_SKIP_WITHOUT_DATA("chat-dumb");
  TerminalCall call = call_for(thinking_model("chat-dumb"));
  call.term = "dumb";
  TerminalSession session(call);
  REQUIRE(session.shows_at_end("\n>"));
  session.type("hi\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  session.type("\"\"\"two\r");
  REQUIRE(session.shows_at_end("\n."));
  session.type("lines\"\"\"\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  session.type(kControlC);
  REQUIRE(session.shows_at_end("the chat)\n>"));
  session.type(kControlD);
  CHECK(session.exit_code() == 0);
  CHECK(session.output().find('\x1b') == std::string::npos);
  CHECK(conversation_on(session.screen()) == golden("chat_dumb.txt"));
}

TEST_CASE("chat on a terminal: NO_COLOR sets thoughts apart with words") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-no-color-sets-thoughts-apart-with-words");
  LLM_SKIP_WITHOUT_DATA("chat-no-color");
  TerminalCall call = call_for(thinking_model("chat-no-color"));
  call.environment.push_back("NO_COLOR=1");
  TerminalSession session(call);
  REQUIRE(session.shows_at_end("\n>"));
  session.type("hi\r");
  CHECK(session.shows_at_end("> hi\n[thoughts]\nHello\n[answer]\nDone\n\n>"));
  CHECK(session.output().find("\x1b[2m") == std::string::npos);
}

TEST_CASE("chat on a terminal: a pasted text is one message") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-a-pasted-text-is-one-message");
  LLM_SKIP_WITHOUT_DATA("chat-paste");
  const std::string model = thinking_model("chat-paste");
  TerminalSession session(call_for(model));
  REQUIRE(session.shows_at_end("\n>"));
  session.type("\x1b[200~one\rtwo\r\n/three\x1b[201~");
  REQUIRE(session.shows_at_end("> one\ntwo\n/three"));
  session.type("\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 0) == "one\ntwo\n/three");
  // Pieces of the marks as a slow line brings them, text around, a newline at the end.
  for (const char* piece : {"x \x1b[2", "00~a\rb\r\x1b[2", "01~", "\r"}) session.type(piece);
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 2) == "x a\nb");
  CHECK(session.screen().unknown().empty());
}

TEST_CASE("chat on a terminal: a large paste arrives whole") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-a-large-paste-arrives-whole");
  LLM_SKIP_WITHOUT_DATA("chat-large-paste");
  const std::string model = thinking_model("chat-large-paste");
  TerminalSession session(call_for(model));
  REQUIRE(session.shows_at_end("\n>"));
  std::string text;
  for (int i = 0; i < 1500; ++i) text += "line " + std::to_string(i) + "\n";
  session.type("\x1b[200~" + text + "end\x1b[201~");
  REQUIRE(session.shows_at_end("\nend"));
  session.type("\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 0) == text + "end");
}

TEST_CASE("chat on a terminal: wide characters and combining marks are edited right") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-wide-characters-and-combining-marks-are");
  LLM_SKIP_WITHOUT_DATA("chat-editing");
  const std::string model = thinking_model("chat-editing");
  TerminalSession session(call_for(model));
  REQUIRE(session.shows_at_end("\n>"));
  const auto type_keys = [&](const std::vector<const char*>& keys) {
    for (const char* key : keys) session.type(key);
  };
  // a 中 e+acute b, two to the left, X before the e; then the mark is gone with its letter.
  type_keys(
      {"a\xe4\xb8\xad"
       "e",
       "\xcc\x81", "b", kLeft, kLeft, "X"});
  CHECK(
      session.shows_at_end("> a\xe4\xb8\xadXe\xcc\x81"
                           "b"));
  type_keys({"\x1b[3~"});
  CHECK(session.shows_at_end("> a\xe4\xb8\xadXb"));
  type_keys({kBackspace, kBackspace});
  CHECK(session.shows_at_end("> ab"));
  type_keys({"\x05", "e\xcc\x81\xcc\xa3", kBackspace, "\xf0\x9f\x98\x80", kLeft, "-"});
  CHECK(session.shows_at_end("> ab-\xf0\x9f\x98\x80"));
  type_keys({"\x01", "\xcc\x88", "\r"});  // a mark where there is no letter before it
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 0) ==
        "\xcc\x88"
        "ab-\xf0\x9f\x98\x80");
  session.type("\xe6\xad\xff.\r");  // not UTF-8
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 2) == "\xef\xbf\xbd\xef\xbf\xbd.");
}

TEST_CASE("chat on a terminal: long lines wrap and follow the terminal's size") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-long-lines-wrap-and-follow-the-terminal");
  LLM_SKIP_WITHOUT_DATA("chat-resize");
  const std::string model = thinking_model("chat-resize");
  TerminalSession session(call_for(model));
  REQUIRE(session.shows_at_end("\n>"));
  const std::string text = "0123456789012345678901234567890123456789";
  session.type(text);
  REQUIRE(session.shows_at_end("> " + text));
  session.resize(10, 20);
  REQUIRE(session.shows_at_end("\n> 012345678901234567\n89012345678901234567\n89"));
  session.type(kBackspace);
  REQUIRE(session.shows_at_end("\n89012345678901234567\n8"));
  session.resize(24, 80);
  REQUIRE(session.shows_at_end("> " + text.substr(0, 39)));
  session.type("\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 0) == text.substr(0, 39));
  CHECK(session.screen().unknown().empty());
}

TEST_CASE("chat on a terminal: Ctrl-C stops the answer and not the chat") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-ctrl-c-stops-the-answer-and-not-the-chat");
  LLM_SKIP_WITHOUT_DATA("chat-interrupt");
  const std::string model = endless_model("chat-interrupt");
  for (const char* term : {"xterm-256color", "dumb"}) {
    CAPTURE(term);
    TerminalCall call = call_for(model, {"--think", "off", "--no-loop-guard"});
    call.term = term;
    TerminalSession session(call);
    REQUIRE(session.shows_at_end("\n>"));
    session.type("first\r");
    REQUIRE(session.shows("HelloDone"));
    session.type(kControlC);
    REQUIRE(session.shows_at_end("the answer)\n\n>"));
    session.type("/set max-tokens 2\r");
    REQUIRE(session.shows_at_end("2\n>"));
    session.type("second\r");
    REQUIRE(session.shows_at_end(
        "second\nHelloDone\n"
        "(cut at 2 tokens; /set max-tokens unlimited lets answers end by themselves)\n\n>"));
    CHECK(message(session, model, 0) == "first");
    CHECK(message(session, model, 1).starts_with("HelloDone"));
    CHECK(message(session, model, 2) == "second");
    session.type(kControlC);
    REQUIRE(session.shows_at_end("the chat)\n>"));
    session.type(kControlC);
    CHECK(session.exit_code() == 0);
  }
}

TEST_CASE("chat on a terminal: a message in between makes an interrupt the first again") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-a-message-in-between-makes-an-interrupt");
  LLM_SKIP_WITHOUT_DATA("chat-hint");
  TerminalSession session(call_for(thinking_model("chat-hint"), {"--think", "off"}));
  REQUIRE(session.shows_at_end("\n>"));
  session.type("dropped");
  REQUIRE(session.shows_at_end("dropped"));
  session.type(kControlC);
  REQUIRE(session.shows_at_end("the chat)\n>"));
  session.type("hi\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  session.type(kControlC);
  REQUIRE(session.shows_at_end("the chat)\n>"));
  session.type("/exit\r");
  CHECK(session.exit_code() == 0);
}

TEST_CASE("chat on a terminal: history reaches over the end of a chat") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-history-reaches-over-the-end-of-a-chat");
  LLM_SKIP_WITHOUT_DATA("chat-recall");
  const std::string model = thinking_model("chat-recall");
  const TerminalCall call = call_for(model, {"--think", "off"});
  {
    TerminalSession session(call);
    REQUIRE(session.shows_at_end("\n>"));
    session.type("\x1b[200~two\rlines e\xcc\x81\x1b[201~\r");
    REQUIRE(session.shows_at_end("Done\n\n>"));
    session.type(kControlD);
    CHECK(session.exit_code() == 0);
  }
  TerminalSession session(call);
  REQUIRE(session.shows_at_end("\n>"));
  session.type(kUp);
  REQUIRE(session.shows_at_end("> two\nlines e\xcc\x81"));
  session.type("!\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  CHECK(message(session, model, 0) == "two\nlines e\xcc\x81!");
}

TEST_CASE("chat on a terminal: an answer's control characters don't reach it") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-an-answer-s-control-characters-don-t-rea");
  LLM_SKIP_WITHOUT_DATA("chat-controls");
  // ESC [ 3 1 m, one byte each, and a bell.
  const std::string model = chat_model(
      "chat-controls", {id::kTwoNewlines, 215, 58, 18, 16, 76, 195, id::kDone, id::kEnd});
  TerminalSession session(call_for(model, {"--think", "off"}));
  REQUIRE(session.shows_at_end("\n>"));
  session.type("hi\r");
  REQUIRE(session.shows_at_end("> hi\n[31mDone\n\n>"));
  CHECK(session.output().find("\x1b[31m") == std::string::npos);
  CHECK(session.output().find('\a') == std::string::npos);
  CHECK(message(session, model, 1) == "\x1b[31m\aDone");
}

TEST_CASE("chat on a terminal: mistakes keep the conversation") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-mistakes-keep-the-conversation");
  LLM_SKIP_WITHOUT_DATA("chat-keeps");
  const std::string model = thinking_model("chat-keeps");
  const std::filesystem::path bad = fresh_test_dir("chat-keeps-files") / "bad.json";
  write_text(bad, R"([{"role": "user", "content": "x"}, 3])");
  TerminalSession session(call_for(model, {"--think", "off", "--ctx", "64"}));
  REQUIRE(session.shows_at_end("\n>"));
  session.type("hi\r");
  REQUIRE(session.shows_at_end("Done\n\n>"));
  session.type("/load " + bad.string() + "\r");
  REQUIRE(session.shows("messages[1]"));
  REQUIRE(session.shows_at_end("\n>"));
  std::string endless;
  for (int i = 0; i < 70; ++i) endless += "word ";
  session.type(endless + "\r");
  REQUIRE(session.shows_at_end("taken back\n>"));
  CHECK(message(session, model, 0) == "hi");
  CHECK(message(session, model, 2) == "no such message");
}

TEST_CASE("run on a terminal without a prompt says what to type") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-run-on-a-terminal-without-a-prompt-says");
  LLM_SKIP_WITHOUT_DATA("run-no-prompt");
  TerminalCall call = call_for(thinking_model("run-no-prompt"));
  call.args.front() = "run";
  TerminalSession session(call);
  CHECK(session.exit_code() == 2);
  CHECK(session.shows("no prompt"));
}

TEST_CASE("chat on a terminal: a signal that ends it puts the terminal back in order") {
  LLM_SKIP_WITHOUT_TERMINAL("terminal-a-signal-that-ends-it-puts-the-terminal");
  LLM_SKIP_WITHOUT_DATA("chat-terminated");
  TerminalSession session(call_for(thinking_model("chat-terminated")));
  REQUIRE(session.shows_at_end("\n>"));
  session.signal(SIGTERM);
  CHECK(session.exit_code() == 128 + SIGTERM);
  CHECK_FALSE(session.screen().bracketed_paste());
}

}  // namespace
}  // namespace llm
