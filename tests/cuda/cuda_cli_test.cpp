// The program on an emulated GPU, as a user runs it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace {

/// $LLM_EMU_BINARY, or build/llm_emu: the program linked with the emulator.
LlmResult run_emulated(const std::vector<std::string>& args, const std::string& input = "") {
  const char* binary = std::getenv("LLM_EMU_BINARY");
  LlmCall call;
  call.args = args;
  call.input = input;
  call.environment = {std::string("LLM_BINARY=") + (binary ? binary : "build/llm_emu")};
  return run_llm(call);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cuda: the program answers on a GPU as on the CPU, and says where it ran") {
  const std::vector<std::string> question = {"run", "--act", "bf16",   "--think",           "off",
                                             "-n",  "12",    "--json", "中国的首都是哪里？"};
  std::vector<std::string> on_cpu = question;
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  const LlmResult gpu = run_emulated(question);  // auto finds the emulated one
  const LlmResult cpu = run_emulated(on_cpu);
  REQUIRE(gpu.exit_code == 0);
  REQUIRE(cpu.exit_code == 0);
  CHECK(contains(gpu.err, "cuda:0 (Emulated GPU, sm_90): 7.44 MiB of weights"));
  const JsonValue a = parse_json(gpu.out, "gpu");
  const JsonValue b = parse_json(cpu.out, "cpu");
  CHECK(contains(a.find("content")->string, "北京"));
  CHECK(a.find("content")->string == b.find("content")->string);
  CHECK(a.find("run")->find("device")->string == "cuda");
  CHECK(a.find("run")->find("isa")->string == "sm_90");
  CHECK(a.find("run")->find("act")->string == "bf16");
  CHECK(b.find("run")->find("device")->string == "cpu");
}

TEST_CASE("cuda: requests in a batch, with guesses and an 8-bit cache") {
  const std::string lines =
      "{\"prompt\": \"What is 2+3?\", \"think\": \"off\", \"max_tokens\": 10}\n"
      "{\"prompt\": \"Spell cat.\", \"think\": \"off\", \"max_tokens\": 10}\n";
  const auto contents = [&](const std::string& device) {
    const LlmResult r = run_emulated({"run", "--jsonl", "-", "-q", "--device", device, "--act",
                                      "bf16", "--draft", "tiny-draft", "--kv-dtype", "int8"},
                                     lines);
    CHECK(r.exit_code == 0);
    std::string all;
    for (size_t at = 0; at < r.out.size();) {
      const size_t end = r.out.find('\n', at);
      all += parse_json(r.out.substr(at, end - at), "line").find("content")->string + "\n";
      at = end + 1;
    }
    return all;
  };
  const std::string on_gpu = contents("cuda");
  CHECK(contains(on_gpu, "5"));
  CHECK(on_gpu == contents("cpu"));
}

TEST_CASE("cuda: devices are listed, and a wrong one is refused") {
  const LlmResult listed = run_emulated({"inspect", "--devices"});
  CHECK(listed.exit_code == 0);
  CHECK(contains(listed.out, "cuda:0    Emulated GPU, sm_90, 4 multiprocessors"));
  CHECK(contains(listed.out, "cuBLASLt  1"));
  const LlmResult json = run_emulated({"inspect", "--devices", "--json"});
  const JsonValue devices = parse_json(json.out, "devices");
  CHECK(devices.find("cuda")->find("devices")->array.size() == 1);
  const LlmResult other = run_emulated({"run", "--device", "cuda:7", "x"});
  CHECK(other.exit_code == 2);
  CHECK(contains(other.err, "there is only cuda:0"));
  const LlmResult f32 = run_emulated({"run", "--device", "cuda", "--act", "f32", "x"});
  CHECK(f32.exit_code == 2);
  CHECK(contains(f32.err, "leave out --act f32"));
}

TEST_CASE("cuda: the measuring commands work") {
  const LlmResult bench =
      run_emulated({"bench", "--device", "cuda", "--prompt-len", "20", "--gen-len", "3", "--batch",
                    "2", "--reps", "1", "--warmup", "0", "--format", "json"});
  CHECK_MESSAGE(bench.exit_code == 0, bench.err);
  CHECK(contains(bench.out, "\"cuda\""));
  const LlmResult eval =
      run_emulated({"eval", "--device", "cuda", "--text", "-", "--ctx", "16", "--json"},
                   "The cat sat on the mat. One two three four.");
  CHECK_MESSAGE(eval.exit_code == 0, eval.err);
  const LlmResult doctor = run_emulated({"doctor"});
  CHECK(contains(doctor.out, "Emulated GPU"));
}

TEST_CASE("cuda: gpu_check.sh goes through its steps, and notices a failure") {
  const std::filesystem::path out = fresh_test_dir("gpu_check");
  const char* binary = std::getenv("LLM_EMU_BINARY");
  ::setenv("LLM", binary ? binary : "build/llm_emu", 1);
  ::setenv("LLM_GPU_TESTS", std::filesystem::read_symlink("/proc/self/exe").c_str(), 1);
  ::setenv("TOKENS", "4", 1);
  ::setenv("REQUESTS", "2", 1);
  ::setenv("REPEATS", "2", 1);
  const auto gpu_check = [&](const std::string& steps) {
    const std::string command = "scripts/gpu_check.sh " + out.string() + " " + steps;
    return std::system((command + " >/dev/null 2>&1").c_str());
  };
  CHECK(gpu_check("device rows_test tokens batches repeats") == 0);
  const std::string table = file_text(out / "checks.csv");
  CHECK(contains(table, "rows_test,passed"));
  CHECK(contains(table, "tokens,passed"));
  CHECK(contains(table, "batches,passed"));
  CHECK(gpu_check("no_such_test device") != 0);
  CHECK(contains(file_text(out / "checks.csv"), "no_such_test,FAILED"));
  CHECK(contains(file_text(out / "checks.csv"), "device,passed"));
}

}  // namespace llm
