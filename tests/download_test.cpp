// Downloads: `llm get`, which is scripts/download_model.sh, against a hub that misbehaves.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "checkpoint_maker.h"
#include "hub_server.h"
#include "run_llm.h"
#include "test_data.h"

namespace llm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWeights = "model.safetensors";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A hub with one model Some/Model and an empty cache to put it in.
struct Hub {
  explicit Hub(const char* name) : root(fs::absolute(fresh_test_dir(name))) {
    server.files["config.json"].bytes = "{\"model_type\": \"qwen3\"}\n";
    server.files["tokenizer.json"].bytes = std::string(3000, '{');
    server.files["README.md"].bytes = "no";
    server.files["pytorch_model.bin"].bytes = "no";
    server.files["onnx/model.safetensors"].bytes = "no";
    set_weights(std::string(200'000, 'w') + "end");
  }

  void set_weights(std::string bytes) {
    server.files[kWeights] = {
        .bytes = std::move(bytes), .large = true, .told_size = {}, .told_hash = {}};
  }

  fs::path cache() const { return root / "cache"; }
  fs::path folder() const { return cache() / "models--Some--Model"; }
  fs::path snapshot() const { return folder() / "snapshots" / server.commit; }

  std::vector<std::string> environment() const {
    return {"HF_ENDPOINT=" + server.endpoint(),
            "HF_HUB_CACHE=" + cache().string(),
            "HF_TOKEN=" + token,
            "HF_HUB_OFFLINE=0",
            "http_proxy=",
            "no_proxy=*"};
  }

  LlmResult call(std::vector<std::string> args) const {
    LlmCall call;
    call.args = std::move(args);
    call.environment = environment();
    return run_llm(call);
  }

  LlmResult get(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"get", "Some/Model", "--retry-delay",
                                     "0",   "--retries",  retries};
    args.insert(args.end(), more.begin(), more.end());
    return call(args);
  }

  HubServer server;
  fs::path root;
  std::string token;
  std::string retries = "2";
};

/// The download ended well: the folder is what stdout names, and every byte is right.
void check_complete(const Hub& hub, const LlmResult& result) {
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out == hub.snapshot().string() + "\n");
  CHECK(file_text(hub.folder() / "refs" / "main") == hub.server.commit);
  for (const char* name : {"config.json", "tokenizer.json", kWeights}) {
    CHECK(fs::is_symlink(hub.snapshot() / name));
    CHECK((file_text(hub.snapshot() / name) == hub.server.files.at(name).bytes));
  }
}

/// The download failed with a message, and nothing looks like an installed model.
void check_failed(const Hub& hub, const LlmResult& result, int code, const std::string& message) {
  CHECK(result.exit_code == code);
  CHECK(result.out.empty());
  CHECK_MESSAGE(contains(result.err, message), result.err);
  CHECK(!fs::exists(hub.folder() / "refs" / "main"));
  CHECK(!fs::exists(hub.folder() / "snapshots"));
  if (fs::exists(hub.folder() / "blobs")) {
    for (const auto& blob : fs::directory_iterator(hub.folder() / "blobs")) {
      const std::string name = blob.path().filename().string();
      if (name.size() != 64) continue;  // a small file, or unfinished
      CHECK(digest("sha256sum", file_text(blob.path())) == name);
    }
  }
}

}  // namespace

TEST_CASE("get: a model that then runs by its hub id, only the files it needs") {
  Hub hub("get-model");
  const fs::path model = fresh_test_dir("get-model-source");
  Random2Options options{.vocab_size = 320};
  options.folder.num_shards = 2;
  write_random2(model, options);
  hub.server.files.erase(kWeights);
  for (const auto& entry : fs::directory_iterator(model)) {
    const std::string name = entry.path().filename().string();
    hub.server.files[name].bytes = file_text(entry.path());
    hub.server.files[name].large = name.ends_with(".safetensors");
  }
  hub.server.files.erase("tokenizer.json");
  const LlmResult result = hub.get();
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out == hub.snapshot().string() + "\n");
  CHECK(hub.server.count("pytorch_model.bin") == 0);
  CHECK(hub.server.count("README.md") == 0);
  CHECK(hub.server.count(kWeights) == 0);  // that of the onnx folder
  CHECK(hub.server.count("model-00001-of-00002.safetensors") == 1);
  const LlmResult run = hub.call(
      {"run", "-m", "Some/Model", "--token-ids", "1 2 3", "-n", "2", "--print-ids", "--greedy"});
  CHECK_MESSAGE(run.exit_code == 0, run.err);
  const LlmResult list = hub.call({"models", "some/"});
  CHECK(contains(list.out, "Some/Model"));
  CHECK(contains(list.out, hub.snapshot().string()));
  CHECK(fs::read_symlink(hub.snapshot() / "config.json").string().starts_with("../../blobs/"));
}

TEST_CASE("get: a second run has nothing to fetch, and a dry run leaves nothing") {
  Hub hub("get-twice");
  const LlmResult dry = hub.get({"--dry-run"});
  CHECK(dry.exit_code == 0);
  CHECK(contains(dry.out, "200003          200003  model.safetensors"));
  CHECK(!fs::exists(hub.cache()));
  check_complete(hub, hub.get());
  check_complete(hub, hub.get());
  CHECK(hub.server.count(kWeights) == 1);
  CHECK(contains(hub.get({"--dry-run"}).out, "200003               0  model.safetensors"));
}

TEST_CASE("get: goes on where the connection broke off") {
  Hub hub("get-broken");
  hub.server.misbehave = [&, tries = 0](const HubRequest& request, HubReply& reply) mutable {
    if (request.is_for(kWeights) && ++tries < 3) reply.cut_after = 70'000;
  };
  check_complete(hub, hub.get());
  std::vector<std::string> ranges;
  for (const HubRequest& request : hub.server.requests()) {
    if (request.is_for(kWeights)) ranges.push_back(request.header("range"));
  }
  CHECK(ranges == std::vector<std::string>{"", "bytes=70000-", "bytes=140000-"});
}

TEST_CASE("get: an earlier run's part is used, and thrown away where it was wrong") {
  Hub hub("get-part");
  hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
    if (request.is_for(kWeights)) reply.cut_after = 1000;
  };
  hub.retries = "0";
  check_failed(hub, hub.get(), 1, "broke off");
  hub.retries = "2";
  const fs::path part = hub.folder() / "blobs" /
                        (digest("sha256sum", hub.server.files[kWeights].bytes) + ".incomplete");
  CHECK(fs::file_size(part) == 1000);
  hub.server.misbehave = nullptr;
  SUBCASE("right") { CHECK(fs::exists(part)); }
  SUBCASE("other bytes") { write_text(part, std::string(5000, 'x')); }
  SUBCASE("other bytes, all of them") { write_text(part, std::string(200'003, 'x')); }
  SUBCASE("longer than the file") { write_text(part, std::string(300'000, 'x')); }
  check_complete(hub, hub.get());
  CHECK(!fs::exists(part));
}

TEST_CASE("get: a server that gives no parts is asked for all again") {
  Hub hub("get-no-range");
  hub.server.misbehave = [&, first = true](const HubRequest& request, HubReply& reply) mutable {
    if (!request.is_for(kWeights)) return;
    reply = HubReply();
    reply.body = hub.server.files[kWeights].bytes;
    if (first) reply.cut_after = 5000;
    first = false;
  };
  check_complete(hub, hub.get());
}

TEST_CASE("get: a server that refuses every range, asked for or not, is given up") {
  Hub hub("get-416");
  hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
    if (request.is_for(kWeights)) reply.status = 416;
  };
  check_failed(hub, hub.get(), 1, kWeights);
  CHECK(hub.server.count(kWeights) < 20);
}

TEST_CASE("get: sizes that aren't true end in an error") {
  Hub hub("get-sizes");
  HubFile& weights = hub.server.files[kWeights];
  SUBCASE("more announced than sent") {
    hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
      if (request.is_for(kWeights)) reply.announced = 400'000;
    };
    // All bytes are there and the checksum is right, so the broken connection doesn't matter.
    check_complete(hub, hub.get());
  }
  SUBCASE("the file is longer than the API says") {
    weights.told_size = 1000;
    check_failed(hub, hub.get(), 1, "more than the 1000 bytes");
  }
  SUBCASE("the file is shorter than the API says") {
    weights.told_size = 300'000;
    check_failed(hub, hub.get(), 1, "model.safetensors");
  }
  SUBCASE("a body without end") {
    hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
      if (request.is_for(kWeights)) reply.endless = true;
    };
    check_failed(hub, hub.get(), 1, "more than the 200003 bytes");
  }
  SUBCASE("more than any disk holds") {
    weights.told_size = 900'000'000'000'000;
    check_failed(hub, hub.get(), 2, "free");
  }
  SUBCASE("no number") {
    hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
      const size_t at = reply.body.find("\"size\":200003");
      if (request.path.starts_with("/api/")) reply.body.replace(at, 13, "\"size\":\"$(id)\"");
    };
    weights.large = false;
    check_failed(hub, hub.get(), 1, "no size and checksum");
  }
}

TEST_CASE("get: what has another checksum is fetched once more, then given up") {
  Hub hub("get-checksum");
  SUBCASE("wrong once") {
    hub.server.misbehave = [first = true](const HubRequest& request, HubReply& reply) mutable {
      if (!request.is_for(kWeights)) return;
      if (first) reply.body[5] = 'x';
      first = false;
    };
    check_complete(hub, hub.get());
  }
  SUBCASE("always wrong, weights") {
    hub.server.files[kWeights].told_hash = std::string(64, '0');
    check_failed(hub, hub.get(), 1, "checksum");
  }
  SUBCASE("always wrong, small file") {
    hub.server.files["config.json"].told_hash = std::string(40, '0');
    check_failed(hub, hub.get(), 1, "config.json: wrong checksum");
  }
  SUBCASE("no checksum at all") {
    hub.server.files[kWeights].told_hash = "../../../evil";
    check_failed(hub, hub.get(), 1, "no size and checksum");
  }
}

TEST_CASE("get: redirects are followed, without the token and not for ever") {
  Hub hub("get-redirects");
  hub.token = "hf_secret";
  HubServer store;
  store.files = hub.server.files;
  SUBCASE("to another server") {
    hub.server.misbehave = [&](const HubRequest& request, HubReply& reply) {
      if (!request.is_for(kWeights)) return;
      reply =
          HubReply{.status = 302, .headers = {{"Location", store.endpoint() + "/x/" + kWeights}}};
    };
    check_complete(hub, hub.get());
    for (const HubRequest& request : hub.server.requests()) {
      CHECK(request.header("authorization") == "Bearer hf_secret");
    }
    REQUIRE(store.requests().size() == 1);
    CHECK(store.requests()[0].header("authorization") == "");
  }
  SUBCASE("in a circle") {
    hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
      if (!request.is_for(kWeights)) return;
      reply = HubReply{.status = 302, .headers = {{"Location", request.path}}};
    };
    check_failed(hub, hub.get(), 1, "redirects");
  }
}

TEST_CASE("get: a busy server is asked again") {
  Hub hub("get-busy");
  int status = 0;
  std::string what;
  SUBCASE("429, API") { status = 429, what = "main?blobs=true"; }
  SUBCASE("503, API") { status = 503, what = "main?blobs=true"; }
  SUBCASE("503, weights") { status = 503, what = kWeights; }
  hub.server.misbehave = [&, tries = 0](const HubRequest& request, HubReply& reply) mutable {
    if (!request.is_for(what) || ++tries > 2) return;
    reply = HubReply{.status = status, .headers = {{"Retry-After", "0"}}, .body = "later"};
  };
  check_complete(hub, hub.get());
  hub.server.misbehave = [](const HubRequest&, HubReply& reply) {
    reply = HubReply{.status = 503};
  };
  fs::remove_all(hub.cache());
  check_failed(hub, hub.get(), 1, "503");
}

TEST_CASE("get: what the hub refuses is said in words") {
  Hub hub("get-refused");
  int status = 0;
  std::string message;
  SUBCASE("404") { status = 404, message = "no model Some/Model"; }
  SUBCASE("401") { status = 401, message = "put a token in HF_TOKEN"; }
  SUBCASE("403 with a token") {
    status = 403, message = "HF_TOKEN may be wrong";
    hub.token = "hf_secret";
  }
  hub.server.misbehave = [&](const HubRequest&, HubReply& reply) {
    reply = HubReply{.status = status, .headers = {{"X-Error-Message", "as\x1b[31m told"}}};
  };
  const LlmResult result = hub.get();
  check_failed(hub, result, 1, message);
  CHECK(contains(result.err, "as[31m told"));
  CHECK(!contains(result.err, "hf_secret"));
  CHECK(hub.server.requests().size() == 1);
}

TEST_CASE("get: an answer that isn't a hub's, or a model that isn't for llm") {
  Hub hub("get-strange");
  std::string message;
  int code = 1;
  SUBCASE("a web page") {
    hub.server.misbehave = [](const HubRequest&, HubReply& r) { r.body = "<html>sign in</html>"; };
    message = "not JSON";
  }
  SUBCASE("other JSON") {
    hub.server.misbehave = [](const HubRequest&, HubReply& r) { r.body = "{\"sha\":\"../..\"}"; };
    message = "no commit";
  }
  SUBCASE("cut off") {
    hub.server.misbehave = [](const HubRequest&, HubReply& r) { r.body.resize(r.body.size() / 2); };
    message = "not JSON";
  }
  SUBCASE("no safetensors") {
    hub.server.files.erase(kWeights);
    message = "no model.safetensors";
    code = 2;
  }
  SUBCASE("no config") {
    hub.server.files.erase("config.json");
    message = "no config.json";
    code = 2;
  }
  check_failed(hub, hub.get(), code, message);
}

TEST_CASE("get: command line and environment that can't be used") {
  const Hub hub("get-environment");
  const auto get_with = [&](const std::string& variable) {
    LlmCall call;
    call.args = {"get", "Some/Model"};
    call.environment = hub.environment();
    call.environment.push_back(variable);
    return run_llm(call);
  };
  check_failed(hub, get_with("HF_ENDPOINT=http://127.0.0.1:1"), 1, "can't reach");
  check_failed(hub, get_with("HF_ENDPOINT=file:///etc"), 2, "HF_ENDPOINT");
  check_failed(hub, get_with("HF_HUB_OFFLINE=1"), 2, "HF_HUB_OFFLINE");
  check_failed(hub, get_with("HF_TOKEN=a\nurl = x"), 2, "HF_TOKEN");
  write_text(hub.root / "file", "x");
  check_failed(hub, get_with("HF_HUB_CACHE=" + (hub.root / "file" / "cache").string()), 1,
               "can't write");
  check_failed(hub, hub.call({"get", "qwen3-06b"}), 2, "did you mean qwen3-0.6b?");
  check_failed(hub, hub.call({"get", "../x"}), 2, "no model");
  check_failed(hub, hub.call({"get"}), 2, "MODEL is missing");
  CHECK(hub.server.count(kWeights) == 0);
}

TEST_CASE("get: an interrupt leaves what the next run goes on with") {
  Hub hub("get-interrupt");
  hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
    if (!request.is_for(kWeights)) return;
    reply.cut_after = 100'000;
    reply.stall = true;
  };
  const char* binary = std::getenv("LLM_BINARY");
  std::string command = "env";
  for (const std::string& variable : hub.environment()) command += " '" + variable + "'";
  command += fmt::format(
      " timeout --preserve-status -k 20 -s INT 2 '{}' get Some/Model >'{}' 2>&1 </dev/null",
      binary == nullptr ? "build/llm" : binary, (hub.root / "log").string());
  const int status = std::system(command.c_str());
  LlmResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.err = file_text(hub.root / "log");
  check_failed(hub, result, 130, "run it again to go on");
  hub.server.misbehave = nullptr;
  check_complete(hub, hub.get());
  REQUIRE(!hub.server.requests().empty());
  CHECK(hub.server.requests().back().header("range").starts_with("bytes="));
}

TEST_CASE("get: two at once fetch every file once") {
  Hub hub("get-both");
  hub.set_weights(std::string(3'000'000, 'w'));
  LlmResult other;
  std::thread thread([&] { other = hub.get(); });
  const LlmResult result = hub.get();
  thread.join();
  check_complete(hub, result);
  check_complete(hub, other);
  CHECK(hub.server.count(kWeights) == 1);
}

TEST_CASE("get: a new version takes the old one's place when it is complete") {
  Hub hub("get-update");
  check_complete(hub, hub.get());
  const std::string old = hub.server.commit;
  hub.server.commit = std::string(40, 'b');
  hub.set_weights("new weights");
  hub.server.misbehave = [](const HubRequest& request, HubReply& reply) {
    if (request.is_for(kWeights)) reply = HubReply{.status = 404};
  };
  CHECK(hub.get().exit_code == 1);
  CHECK(file_text(hub.folder() / "refs" / "main") == old);
  hub.server.misbehave = nullptr;
  check_complete(hub, hub.get());
  CHECK(hub.server.count("tokenizer.json") == 1);
}

}  // namespace llm
