// `llm doctor` and the known answers it checks.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/thread_pool.h"
#include "cli/doctor_report.h"
#include "engine/known_answer.h"
#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LlmResult doctor(std::vector<std::string> args, std::vector<std::string> environment = {}) {
  LlmCall call;
  call.args = std::move(args);
  call.args.insert(call.args.begin(), {"doctor", "--no-speed"});
  call.environment = std::move(environment);
  return run_llm(call);
}

}  // namespace

TEST_CASE("known answers: this build's logits, on every instruction set and with any threads") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const Isa isa : supported_isas()) {
      CAPTURE(name_of(isa));
      CHECK(known_answer_hash(pool, isa) == expected_answer_hash(isa));
    }
  }
}

TEST_CASE("doctor: all is well here, and the report is JSON with the same facts") {
  const LlmResult text = doctor({});
  CHECK_MESSAGE(text.exit_code == 0, text.out);
  CHECK(text.err.empty());
  CHECK(contains(text.out, "all is well"));
  const LlmResult r = doctor({"--json"});
  CHECK(r.exit_code == 0);
  const JsonValue json = parse_json(r.out, "doctor");
  for (const char* section :
       {"build", "cpu", "memory", "gpu", "models", "environment", "terminal", "known_answers"}) {
    CHECK_MESSAGE(json.find(section) != nullptr, section);
  }
  CHECK(json.find("speed") == nullptr);
  CHECK(json.find("problems")->array.empty());
  CHECK(json.find("cpu")->find("threads_by_default")->integer == allowed_threads());
  const JsonValue& answers = *json.find("known_answers");
  CHECK(answers.object.size() == supported_isas().size());
  CHECK(answers.find("generic")->find("right")->boolean);
}

TEST_CASE("doctor: a wrong answer is a problem that names what to do") {
  DoctorReport report;
  add_answers(report, {{Isa::kGeneric, 1, 1}, {Isa::kAvx2, 2, 3}});
  REQUIRE(report.problems.size() == 1);
  CHECK(contains(report.problems[0], "avx2"));
  CHECK(contains(report.problems[0], "LLM_CPU_ISA"));
  CHECK(contains(doctor_table(report), "problem: "));
  CHECK(!contains(doctor_table(report), "all is well"));
  CHECK(!parse_json(doctor_json(report), "d")
             .find("known_answers")
             ->find("avx2")
             ->find("right")
             ->boolean);
}

TEST_CASE("doctor: an instruction set that can't be chosen is a problem, not the end") {
  const LlmResult r = doctor({}, {"LLM_CPU_ISA=mmx"});
  CHECK(r.exit_code == 1);
  CHECK(contains(r.out, "problem: LLM_CPU_ISA=mmx"));
  CHECK(contains(r.out, "known answers"));
  CHECK(contains(doctor({}, {"LLM_CPU_ISA=generic"}).out, "generic (LLM_CPU_ISA says so)"));
}

TEST_CASE("doctor: secrets stay secret, and the environment can't steer a terminal") {
  const std::vector<std::string> environment = {
      "HF_TOKEN=hf_secret", "HF_ENDPOINT=http://me:secret@x", "LLM_MODEL=a\x1b[31mb\xff",
      "LC_ALL=de_DE.UTF-8", "TERM=xterm"};
  for (const std::vector<std::string>& args : {std::vector<std::string>{}, {"--json"}}) {
    const LlmResult r = doctor(args, environment);
    CHECK(r.exit_code == 0);
    CHECK(!contains(r.out, "secret"));
    CHECK(!contains(r.out, "\x1b"));
    CHECK(contains(r.out, "xterm"));
  }
  const JsonValue json = parse_json(doctor({"--json"}, environment).out, "doctor");
  CHECK(json.find("environment")->find("HF_TOKEN")->string == "set");
  CHECK(json.find("terminal")->find("utf8")->boolean);
  const JsonValue plain = parse_json(doctor({"--json"}, {"LC_ALL=C"}).out, "doctor");
  CHECK(!plain.find("terminal")->find("utf8")->boolean);
}

TEST_CASE("doctor: the cache is measured as it is, or said to be absent") {
  const fs::path cache = fs::absolute(fresh_test_dir("doctor-cache"));
  fs::create_directories(cache / "models--a--b" / "blobs");
  std::ofstream(cache / "models--a--b" / "blobs" / "x") << std::string(12'345, 'x');
  fs::create_symlink("x", cache / "models--a--b" / "blobs" / "link");
  fs::create_symlink("nowhere", cache / "models--a--b" / "blobs" / "broken");
  const LlmResult r = doctor({"--json"}, {"HF_HUB_CACHE=" + cache.string()});
  const JsonValue json = parse_json(r.out, "doctor");
  CHECK(json.find("models")->find("bytes")->integer == 12'345);
  CHECK(json.find("models")->find("installed")->integer == 0);
  CHECK(json.find("models")->find("writable")->boolean);
  const LlmResult none =
      doctor({"--json"}, {"HOME=", "HF_HOME=", "HF_HUB_CACHE=", "XDG_CACHE_HOME="});
  CHECK(parse_json(none.out, "doctor").find("models")->find("cache")->is_null());
}

TEST_CASE("doctor: the driver's version comes from where the kernel shows it") {
  const fs::path root = fresh_test_dir("doctor-root");
  fs::create_directories(root / "proc/driver/nvidia");
  std::ofstream(root / "proc/driver/nvidia/version") << "NVRM version: 1.2\nGCC version: 3\n";
  const DoctorReport report = examine({.json = false, .measure = false, .root = root});
  CHECK(contains(doctor_table(report), "NVRM version: 1.2"));
  CHECK(!contains(doctor_table(report), "GCC"));
}

TEST_CASE("doctor: the machine's speed is measured unless told otherwise") {
  const JsonValue json = parse_json(run_llm({"doctor", "--json"}).out, "doctor");
  REQUIRE(json.find("speed") != nullptr);
  CHECK(json.find("speed")->find("read_gbs")->number > 0);
}

}  // namespace llm
