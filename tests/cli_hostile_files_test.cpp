// Files and answers that aren't what a command hopes for, with the built-in model: pipes that
// nobody writes to, read errors, private files and links, thoughts without an answer.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint_maker.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LlmResult chat(const std::string& input) {
  return run_llm({"chat", "-m", "tiny", "--think", "off"}, input);
}

TEST_CASE("chat: a pipe that nobody writes to is refused, not waited for") {
  const fs::path fifo = fresh_test_dir("hostile-fifo") / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const char* command : {"/load ", "/file ", "/save! "}) {
    CAPTURE(command);
    const LlmResult r = chat(command + fifo.string() + "\nhi\n");
    CHECK(r.exit_code != 0);
    CHECK(r.out.empty());
    CHECK(contains(r.err, fifo.string() + ": is not a regular file"));
  }
}

TEST_CASE("chat: /save! keeps a file private and a link a link") {
  const fs::path dir = fresh_test_dir("hostile-save");
  const fs::path file = dir / "c.json", link = dir / "link";
  write_text(file, "old");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("c.json", link);
  CHECK(chat("hi\n/save! " + link.string() + "\n").exit_code == 0);
  CHECK(fs::is_symlink(link));
  CHECK(fs::file_size(file) > 10);
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(std::distance(fs::directory_iterator(dir), {}) == 2);  // nothing half-written beside them
}

TEST_CASE("a read error is no end of file") {
  const char* broken = "/proc/self/mem";  // opens, and reads as an I/O error
  if (!fs::exists(broken)) return skip_test("read-error", broken, false);
  const LlmResult r = run_llm({"run", "-m", "tiny", "--messages", broken}, "");
  CHECK(r.exit_code == 2);
  CHECK(contains(r.err, "can't be read"));
}

TEST_CASE("chat: a loaded conversation that is far too long loses its oldest turns at once") {
  std::string messages = "[";
  for (int turn = 0; turn < 3000; ++turn) {
    messages += R"({"role":"user","content":"a"},{"role":"assistant","content":"b"},)";
  }
  messages.back() = ']';
  const fs::path file = fresh_test_dir("hostile-long") / "long.json";
  write_text(file, messages);
  const LlmResult r = chat("/load " + file.string() + "\nWhat is 2 + 3?\n");
  CHECK(r.exit_code == 0);
  CHECK(contains(r.err, "no longer sees the oldest"));
  CHECK(r.out.ends_with('\n'));
}

TEST_CASE("an answer that is nothing but a thought is explained") {
  const LlmResult cut = run_llm({"run", "-m", "tiny", "-n", "5", "What is 47 + 38?"}, "");
  CHECK(cut.exit_code == 0);
  CHECK(cut.out.empty());
  CHECK(contains(cut.err, "--max-tokens 5 was used up by the thought"));
  const LlmResult whole = run_llm({"run", "-m", "tiny", "What is 47 + 38?"}, "");
  CHECK(contains(whole.out, "85"));
  CHECK_FALSE(contains(whole.err, "thought"));
}

TEST_CASE("--tokenizer takes the names that -m takes") {
  const LlmResult r = run_llm({"run", "--config", "qwen3-0.6b", "--device", "shape", "--tokenizer",
                               "tiny", "--trace-shapes", "hi"},
                              "");
  CHECK(r.exit_code == 0);
  CHECK(run_llm({"run", "-m", "tiny", "--tokenizer", "tinny", "hi"}, "").exit_code == 2);
}

}  // namespace
}  // namespace llm
