// `llm run --jsonl`: the answers of one request after the other, whatever runs beside them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint_maker.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using Json = nlohmann::ordered_json;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// What doesn't depend on the clock or on what was cached.
Json lasting(Json answer) {
  answer.erase("ttft_ms");
  answer.erase("tpot_ms");
  if (answer.contains("usage")) answer["usage"].erase("cached_tokens");
  return answer;
}

std::vector<Json> answers(const std::string& requests, const Args& more, int exit_code) {
  Args args = {"run", "--jsonl", "-", "--seed", "7", "-q"};
  args.insert(args.end(), more.begin(), more.end());
  const LlmResult r = run_llm(args, requests);
  REQUIRE_MESSAGE(r.exit_code == exit_code, r.err);
  std::vector<Json> lines = lines_of(r.out);
  for (Json& line : lines) line = lasting(line);
  return lines;
}

TEST_CASE("2,000 lines with random stops, limits and bad lines end as one by one") {
  std::mt19937 random(11);
  std::string requests;
  size_t good = 0, bad = 0;
  for (int i = 0; i < 2000; ++i) {
    if (random() % 40 == 0) {
      const char* const broken[] = {"{", "[]", R"({"prompt":3})", R"({"prompt":"x","temp":1})",
                                    R"({"messages":[],"prompt":"x"})"};
      requests += std::string(broken[random() % 5]) + "\n";
      ++bad;
      continue;
    }
    Json line = {{"id", "r" + std::to_string(i)},
                 {"prompt", "What is " + std::to_string(random() % 50) + " + " +
                                std::to_string(random() % 50) + "?"}};
    line["think"] = random() % 2 == 0 ? "on" : "off";
    line["max_tokens"] = random() % 40;
    if (random() % 4 == 0) line["temperature"] = 0.9;
    if (random() % 4 == 0) line["seed"] = random() % 3;
    if (random() % 5 == 0) line["stop"] = "=";
    if (random() % 9 == 0) line["repetition_penalty"] = 1.2;
    requests += line.dump() + "\n";
    ++good;
  }
  const std::vector<Json> together = answers(requests, {}, 1);
  CHECK(together.size() == good + bad);
  size_t errors = 0;
  for (const Json& answer : together) errors += answer.contains("error");
  CHECK(errors == bad);
  CHECK(answers(requests, {"--max-num-seqs", "1", "--no-prefix-cache"}, 1) == together);
  CHECK(answers(requests, {"--max-num-seqs", "64", "--kv-blocks", "512"}, 1) == together);
  CHECK(answers(requests, {"--draft", "tiny-draft", "-t", "1"}, 1) == together);
  CHECK(answers(requests,
                {"--block-size", "48", "--max-num-batched-tokens", "40", "--kv-blocks", "171"},
                1) == together);
}

TEST_CASE("a line is answered as `run` answers it") {
  const std::vector<Json> lines =
      answers(R"({"messages":[{"role":"user","content":"What is 47 + 38?"}],"think":"off"})"
              "\n\n"
              R"({"id":5,"token_ids":[10,11,12],"max_tokens":3})",
              {}, 0);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["id"] == 1);
  CHECK(lines[1]["id"] == 5);
  const LlmResult chat =
      run_llm({"run", "--json", "-q", "--seed", "7", "--think", "off", "What is 47 + 38?"});
  Json expected = lasting(Json::parse(chat.out));
  Json answer = lines[0];
  answer.erase("id");
  CHECK(answer == expected);
  const LlmResult raw =
      run_llm({"run", "--json", "-q", "--seed", "7", "-n", "3", "--token-ids", "10 11 12"});
  CHECK(lines[1]["ids"] == Json::parse(raw.out)["ids"]);
}

TEST_CASE("bad lines say what is wrong, and where") {
  const std::vector<Json> lines = answers(
      "{\"prompt\":\"Hi\",\"think\":\"off\"}\n"
      "nonsense\n"
      "{\"id\":\"a\",\"prompt\":\"x\",\"max_tokens\":-1}\n"
      "{\"id\":\"b\",\"prompt\":\"x\",\"colour\":1}\n"
      "{\"id\":1,\"prompt\":\"x\"}\n"
      "{\"id\":\"c\",\"prompt\":\"x\",\"top_p\":7}\n"
      "{\"id\":\"d\",\"token_ids\":[999999]}\n",
      {}, 1);
  REQUIRE(lines.size() == 7);
  CHECK(lines[0]["content"] == "Hello! How can I help you?");
  const auto message = [&](size_t i) { return lines[i]["error"]["message"].get<std::string>(); };
  CHECK(lines[1]["id"] == 2);
  CHECK(lines[1]["error"]["line"] == 2);
  CHECK(message(2).find("\"max_tokens\" is -1") != std::string::npos);
  CHECK(message(3).find("unknown key \"colour\"") != std::string::npos);
  CHECK(message(4).find("the id 1 was there before") != std::string::npos);
  CHECK(message(5).find("top_p is 7") != std::string::npos);
  CHECK(message(6).find("999999") != std::string::npos);
}

TEST_CASE("--resume skips what OUT has, and mends a line that was cut off") {
  const fs::path dir = fresh_test_dir("jsonl-resume");
  const std::string in = (dir / "in.jsonl").string(), out = (dir / "out.jsonl").string();
  std::string requests;
  for (int i = 0; i < 20; ++i) {
    requests += fmt::format("{{\"prompt\":\"What is {} + 5?\",\"think\":\"off\"}}\n", i);
  }
  write_text(in, requests);
  const Args args = {"run", "--jsonl", in, "-o", out, "--seed", "7", "-q"};
  REQUIRE(run_llm(args).exit_code == 0);
  const std::string whole = file_text(out);
  CHECK(lines_of(whole).size() == 20);

  const LlmResult again = run_llm(args);
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("--resume") != std::string::npos);
  CHECK(file_text(out) == whole);

  size_t cut = 0;  // inside line 8
  for (int i = 0; i < 7; ++i) cut = whole.find('\n', cut) + 1;
  write_text(out, whole.substr(0, cut + 25));
  Args resume = args;
  resume.push_back("--resume");
  REQUIRE(run_llm(resume).exit_code == 0);
  const std::vector<Json> first = lines_of(whole), second = lines_of(file_text(out));
  REQUIRE(second.size() == 20);
  for (size_t i = 0; i < 20; ++i) CHECK(lasting(first[i]) == lasting(second[i]));

  write_text(out, "not an answer\n");
  CHECK(run_llm(resume).exit_code == 2);
  CHECK(file_text(out) == "not an answer\n");
}

TEST_CASE("an interrupt while there is nothing to do ends the program") {
  // What still runs two seconds after it is killed, which would give 137.
  const char* const command =
      "sleep 6 | timeout --preserve-status -s INT -k 2 1 \"${LLM_BINARY:-build/llm}\" run -q "
      "--jsonl - >/dev/null 2>&1";
  const int status = std::system(command);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
}

TEST_CASE("an interrupt leaves whole answers, from the first on") {
  std::string requests;
  for (int i = 0; i < 400; ++i) {
    requests += "{\"prompt\":\"Tell me a story.\",\"max_tokens\":300,\"ignore_eos\":true}\n";
  }
  LlmCall call;
  call.args = {"run", "--jsonl", "-", "--seed", "7", "--max-num-seqs", "2"};
  call.input = requests;
  call.interrupt_after_output = true;
  const LlmResult r = run_llm(call);
  CHECK(r.exit_code == 130);
  const std::vector<Json> lines = lines_of(r.out);
  CHECK(lines.size() >= 1);
  CHECK(lines.size() < 400);
  for (size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i]["id"] == i + 1);
    CHECK(lines[i]["ids"].size() == 300);
  }
}

TEST_CASE("--resume takes nothing away that isn't its own, and tries no error again") {
  const fs::path dir = fresh_test_dir("jsonl-resume-files");
  const fs::path in = dir / "in.jsonl", out = dir / "out.jsonl";
  write_text(in, "{\"prompt\":\"a\",\"max_tokens\":1}\n{bad\n");
  const auto resume = [&](const fs::path& to) {
    return run_llm({"run", "--jsonl", in.string(), "-o", to.string(), "--resume", "--seed", "7"});
  };
  write_text(out, "my precious");
  CHECK(resume(out).exit_code == 2);
  CHECK(read_file(out, 1 << 20) == "my precious");
  CHECK(resume(in).exit_code == 2);

  write_text(out, "");
  CHECK(resume(out).exit_code == 1);
  const std::string whole = read_file(out, 1 << 20);
  CHECK(lines_of(whole).size() == 2);
  const LlmResult again = resume(out);
  CHECK(again.exit_code == 1);
  CHECK(again.err.find("1 line of an earlier run") != std::string::npos);
  CHECK(read_file(out, 1 << 20) == whole);
  // A last line that lost only its end is kept, one that was cut off is made anew.
  for (const size_t kept : {whole.size() - 1, whole.size() - 9}) {
    write_text(out, whole.substr(0, kept));
    CHECK(resume(out).exit_code == 1);
    CHECK(read_file(out, 1 << 20) == whole);
  }
}

}  // namespace
}  // namespace llm
