// Lines, commands, history and cells: what a chat makes of what a person enters.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cwchar>
#include <filesystem>
#include <fstream>
#include <vector>

#include "checkpoint_maker.h"
#include "cli/chat_commands.h"
#include "cli/chat_history.h"
#include "cli/edit_cells.h"
#include "cli/line_editor.h"
#include "cli/line_source.h"
#include "cli/terminal_text.h"
#include "test_data.h"

namespace llm {
namespace {

TEST_CASE("chat commands: names, arguments and mistakes") {
  const ChatEntry think = parse_entry("/think  off ");
  CHECK(think.kind == ChatEntry::Kind::kCommand);
  CHECK(think.command == ChatCommand::kThink);
  CHECK(think.text == "off");
  CHECK(parse_entry("/system").kind == ChatEntry::Kind::kCommand);
  CHECK(parse_entry("/save! a b.json").command == ChatCommand::kSaveOver);
  CHECK(parse_entry("/save! a b.json").text == "a b.json");
  CHECK(parse_entry("/system  be short, and  kind").text == "be short, and  kind");
  for (const char* mistake : {"/nope", "/", "/Help", "/think", "/save", "/clear all", "/help\tx"}) {
    CAPTURE(mistake);
    CHECK(parse_entry(mistake).kind == ChatEntry::Kind::kMistake);
  }
  CHECK(parse_entry("/nope").text.find("/regen") != std::string::npos);
}

TEST_CASE("chat commands: what is a message") {
  for (const char* text : {"hi", " /help", "", "a /help", "/usr/bin/env\nis a path", "//\nx"}) {
    CAPTURE(text);
    CHECK(parse_entry(text).kind == ChatEntry::Kind::kMessage);
    CHECK(parse_entry(text).text == text);
  }
  CHECK(parse_entry("//help").kind == ChatEntry::Kind::kMessage);
  CHECK(parse_entry("//help").text == "/help");
  CHECK(parse_entry("///").text == "//");
}

/// Hands out given lines, then the end.
class GivenLines : public LineSource {
 public:
  explicit GivenLines(std::vector<Line> lines) : lines_(std::move(lines)) {}
  Line read(std::string_view prompt) override {
    prompts += prompt;
    if (next_ == lines_.size()) return {.kind = Line::Kind::kEnd};
    return lines_[next_++];
  }
  std::string prompts;

 private:
  std::vector<Line> lines_;
  size_t next_ = 0;
};

Line text_line(const char* text) { return {.kind = Line::Kind::kText, .text = text}; }

Line message_of(const std::vector<const char*>& texts) {
  std::vector<Line> lines;
  for (const char* text : texts) lines.push_back(text_line(text));
  GivenLines given(std::move(lines));
  return read_typed_message(given);
}

TEST_CASE("chat lines: backslashes and blocks") {
  CHECK(message_of({"hi", "next"}).text == "hi");
  CHECK_FALSE(message_of({"/help"}).is_message);
  CHECK(message_of({"a\\", "b\\", "c", "d"}).text == "a\nb\nc");
  CHECK(message_of({"/a\\", "b"}).is_message);
  CHECK(message_of({"\"\"\"", "a", "", "b", "\"\"\"", "c"}).text == "a\n\nb");
  CHECK(message_of({"\"\"\"a", "b\\", "c\"\"\" ", "d"}).text == "a\nb\\\nc");
  CHECK(message_of({"  \"\"\"/help\"\"\""}).text == "/help");
  CHECK(message_of({"  \"\"\"/help\"\"\""}).is_message);
  CHECK(message_of({"\"\"\"\"\"\""}).text.empty());
  CHECK(message_of({"\"\"\"", "\"\"\""}).text.empty());
  CHECK(message_of({"say \"\"\"a", "b"}).text == "say \"\"\"a");
  CHECK(message_of({"\"\"\"a", "b"}).kind == Line::Kind::kEnd);  // never closed
  CHECK(message_of({"a\\"}).kind == Line::Kind::kEnd);
}

TEST_CASE("chat lines: a pasted text is taken as it is") {
  const Line pasted = message_of({"one\n/two\\\nthree\\", "next"});
  CHECK(pasted.text == "one\n/two\\\nthree\\");
  CHECK(pasted.is_message);
  GivenLines given({text_line("a\\"), {.kind = Line::Kind::kInterrupted}, text_line("b")});
  CHECK(read_typed_message(given).kind == Line::Kind::kInterrupted);
  CHECK(given.prompts == "> . ");
  CHECK(read_typed_message(given).text == "b");
}

TEST_CASE("chat history: entries come back, the last thousand, for the owner alone") {
  const std::filesystem::path path = fresh_test_dir("chat-history") / "a" / "b" / "history";
  const ChatHistory history(path);
  CHECK(history.load().empty());
  const std::vector<std::string> entries = {"plain", "two\nlines", "back\\slash \\n",
                                            "\xe4\xb8\xad"};
  for (const std::string& entry : entries) history.add(entry);
  CHECK(history.load() == entries);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);

  std::ofstream file(path, std::ios::app);
  for (int i = 0; i < 3000; ++i) file << "entry " << i << "\n";
  file.close();
  CHECK(history.load().size() == 1000);
  CHECK(history.load().back() == "entry 2999");
  CHECK(std::filesystem::file_size(path) < 12000);  // cut to them
}

TEST_CASE("chat history: what can't be used means no history") {
  const std::filesystem::path dir = fresh_test_dir("chat-no-history");
  ChatHistory(std::nullopt).add("x");
  ChatHistory(dir).add("x");  // a folder
  CHECK(ChatHistory(dir).load().empty());
  write_text(dir / "file", "\xff\xfe\n");
  ChatHistory(dir / "file" / "below").add("x");
  CHECK(ChatHistory(dir / "file" / "below").load().empty());
  CHECK(ChatHistory(dir / "file").load() == std::vector<std::string>{"\xef\xbf\xbd\xef\xbf\xbd"});
}

std::wstring cells_of(EditCells& cells, std::string_view text) {
  std::wstring line;
  cells.append(line, text);
  return line;
}

TEST_CASE("edit cells: a character with its marks is one unit of its width") {
  REQUIRE(set_utf8_locale());
  EditCells cells;
  CHECK(cells_of(cells, "ab\xc3\xa9\xe4\xb8\xad") == L"ab\u00e9\u4e2d");  // nothing to join
  const std::string accented = "e\xcc\x81";                               // e, acute
  const std::string stacked = "e\xcc\x81\xcc\xa3";                        // and a dot below
  const std::string wide = "\xe4\xb8\xad\xcc\x81";                        // a wide one, acute
  for (const std::string& text : {accented, stacked, wide}) {
    CAPTURE(text);
    const std::wstring line = cells_of(cells, text);
    REQUIRE(line.size() == 1);
    CHECK(::wcwidth(line[0]) == (text == wide ? 2 : 1));
    CHECK(cells.text(line) == text);
    CHECK(cells.screen(static_cast<char32_t>(line[0])) == text);
    CHECK(cells_of(cells, text) == line);  // known from before
  }
  CHECK(cells_of(cells, accented) != cells_of(cells, stacked));
  std::wstring grown = cells_of(cells, "e");
  cells.append(grown, "\xcc\x81");  // the mark comes later
  CHECK(grown == cells_of(cells, accented));
}

TEST_CASE("edit cells: no text is changed") {
  REQUIRE(set_utf8_locale());
  EditCells cells;
  const std::string texts[] = {
      "\xcc\x81 alone",                    // a mark without a character
      "a\n\xcc\x81",                       // or after a newline
      "\xf3\xb0\x80\x80\xf3\xb0\x80\x81",  // the first stand-ins themselves
      "\xf0\xaa\x80\x80",
      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",  // two emoji with a joiner
      "\xf0\x9f\xab\xa0\xef\xb8\x8f",                  // an emoji with a variation selector
      "tab\tand \x01 control",
  };
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(cells.text(cells_of(cells, text)) == text);
  }
  const std::wstring bare = cells_of(cells, "\xcc\x81");
  CHECK(cells.screen(static_cast<char32_t>(bare[0])) == "\xe2\x97\x8c\xcc\x81");
}

TEST_CASE("terminal text: control characters go, text stays") {
  CHECK(strip_controls("a\x1b[31mb\x07\r\n\tc\x7f") == "a[31mb\n\tc");
  CHECK(strip_controls("x\xc2\x9b"
                       "31m\xc2\x80y") == "x31my");
  const std::string text = "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\xab\xa0 \xc2\xa0";
  CHECK(strip_controls(text) == text);
}

}  // namespace
}  // namespace llm
