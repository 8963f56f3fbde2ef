#include "model/weights.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "checkpoint_maker.h"
#include "io/json.h"
#include "io/safetensors_writer.h"
#include "refusal.h"
#include "test_data.h"

using namespace llm;
namespace fs = std::filesystem;

namespace {

DecoderWeights load(const fs::path& dir) {
  const Log quiet(Verbosity::kQuiet);
  return load_weights(load_model_config(dir),
                      std::make_shared<const Checkpoint>(Checkpoint::open(dir)), quiet);
}

std::string refusal(const fs::path& dir) {
  return refusal_of([&] { load(dir); });
}

/// What load() prints on stderr at normal verbosity.
std::string warnings(const fs::path& dir) {
  const fs::path file = dir / "stderr.txt";
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  REQUIRE(std::freopen(file.c_str(), "w", stderr) != nullptr);
  const Log log;
  load_weights(load_model_config(dir), std::make_shared<const Checkpoint>(Checkpoint::open(dir)),
               log);
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Rewrites model.safetensors after a change to its list of tensors.
void edit(const fs::path& dir, const std::function<void(std::vector<NamedTensor>&)>& change) {
  const Checkpoint checkpoint = Checkpoint::open(dir);
  std::vector<NamedTensor> tensors;
  for (const std::string& name : checkpoint.names()) {
    tensors.push_back({name, checkpoint.tensor(name)});
  }
  change(tensors);
  write_safetensors(dir / "model.safetensors", tensors);
}

NamedTensor& find(std::vector<NamedTensor>& tensors, const std::string& name) {
  for (NamedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor ", name);
  return tensors.front();
}

fs::path small_random2(const std::string& name, Random2Options options = {}) {
  options.vocab_size = 320;
  const fs::path dir = fresh_test_dir(name);
  write_random2(dir, options);
  return dir;
}

bool same_bytes(const ConstTensor& a, const ConstTensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype &&
         std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

std::vector<const LinearPart*> all_parts(const DecoderWeights& w) {
  std::vector<const LinearPart*> parts;
  for (const DecoderLayer& layer : w.layers) {
    for (const Linear* linear :
         {&layer.qkv_proj, &layer.o_proj, &layer.gate_up_proj, &layer.down_proj}) {
      for (const LinearPart& part : linear->parts) parts.push_back(&part);
    }
  }
  parts.push_back(&w.lm_head.parts[0]);
  return parts;
}

}  // namespace

TEST_CASE("weights: every tensor in its slot, weights as views into the file (L12)") {
  const fs::path dir = small_random2("weights-slots");
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(dir));
  const ModelConfig config = load_model_config(dir);
  const DecoderWeights w = load_weights(config, checkpoint, Log(Verbosity::kQuiet));
  REQUIRE(w.layers.size() == 2);
  const DecoderLayer& layer = w.layers[1];
  REQUIRE(layer.qkv_proj.parts.size() == 3);
  CHECK(layer.qkv_proj.parts[0].weight.plain().shape == Shape{128, 64});
  CHECK(layer.qkv_proj.parts[1].weight.plain().shape == Shape{64, 64});
  CHECK(layer.qkv_proj.n() == 256);
  CHECK(layer.o_proj.parts[0].weight.plain().shape == Shape{64, 128});
  CHECK(layer.gate_up_proj.n() == 192);
  CHECK(layer.down_proj.k == 96);
  const std::string prefix = "model.layers.1.";
  const auto at = [&](const std::string& name) { return checkpoint->tensor(prefix + name).data; };
  CHECK(layer.qkv_proj.parts[0].weight.plain().data == at("self_attn.q_proj.weight"));
  CHECK(layer.qkv_proj.parts[1].weight.plain().data == at("self_attn.k_proj.weight"));
  CHECK(layer.qkv_proj.parts[2].weight.plain().data == at("self_attn.v_proj.weight"));
  CHECK(layer.o_proj.parts[0].weight.plain().data == at("self_attn.o_proj.weight"));
  CHECK(layer.gate_up_proj.parts[0].weight.plain().data == at("mlp.gate_proj.weight"));
  CHECK(layer.gate_up_proj.parts[1].weight.plain().data == at("mlp.up_proj.weight"));
  CHECK(layer.down_proj.parts[0].weight.plain().data == at("mlp.down_proj.weight"));
  CHECK(w.embed_tokens.weight.plain().data == checkpoint->tensor("model.embed_tokens.weight").data);
  CHECK(w.lm_head.parts[0].weight.plain().data == w.embed_tokens.weight.plain().data);

  // Norms are widened: each BF16 value of the file as float32.
  const auto check_norm = [&](const Norm& norm, const std::string& name, int64_t size) {
    const ConstTensor stored = checkpoint->tensor(name);
    CHECK(norm.size == size);
    CHECK(norm.eps == 1e-6f);
    for (int64_t i = 0; i < size; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, stored.data + 2 * i, 2);
      CHECK(norm.weight[i] == to_float(BF16{bits}));
    }
  };
  check_norm(layer.input_layernorm, prefix + "input_layernorm.weight", 64);
  check_norm(layer.post_attention_layernorm, prefix + "post_attention_layernorm.weight", 64);
  REQUIRE(layer.q_norm);
  check_norm(*layer.q_norm, prefix + "self_attn.q_norm.weight", 32);
  check_norm(*layer.k_norm, prefix + "self_attn.k_norm.weight", 32);
  check_norm(w.norm, "model.norm.weight", 64);
  CHECK(w.bytes == checkpoint->total_bytes());
  CHECK(w.bytes == 2 * config.num_parameters());
}

TEST_CASE("weights: every plain fixture loads") {
  LLM_SKIP_WITHOUT_DATA("fixture weights");
  const std::vector<std::string> fixtures = {
      "llama-bf16",          "qwen2-bf16",      "qwen3-bf16-hd128-oldcfg",
      "qwen3-bf16-sharded3", "qwen3-bf16-tied", "qwen3-bf16-tied-dup-head",
      "qwen3-bf16-yarn",     "qwen3-f32",       "qwen3-bf16-yarn-oldcfg"};
  for (const std::string& name : fixtures) {
    INFO(name);
    const fs::path dir = shared_data() / "fixtures" / name;
    const DecoderWeights w = load(dir);
    const ModelConfig c = load_model_config(dir);
    const int64_t value_bytes = name == "qwen3-f32" ? 4 : 2;
    CHECK(w.bytes == value_bytes * c.num_parameters());
    CHECK((w.layers[0].qkv_proj.parts[0].bias != nullptr) == c.qkv_bias);
  }
}

TEST_CASE("weights: tied heads may be absent, equal, different, or alone (L10)") {
  Random2Options with_copy;
  with_copy.folder.duplicate_head = true;
  const fs::path copy = small_random2("weights-copy", with_copy);
  const DecoderWeights without = load(small_random2("weights-no-head"));
  const DecoderWeights with = load(copy);
  CHECK(with.lm_head.parts[0].weight.plain().data == with.embed_tokens.weight.plain().data);
  CHECK(with.bytes == without.bytes);
  CHECK(same_bytes(with.lm_head.parts[0].weight.plain(), without.lm_head.parts[0].weight.plain()));
  CHECK(warnings(copy) == "");

  edit(copy, [](std::vector<NamedTensor>& tensors) {
    find(tensors, "lm_head.weight").tensor.data += 2;  // shifted by one value
  });
  CHECK(load(copy).lm_head.parts[0].weight.plain().data !=
        load(copy).embed_tokens.weight.plain().data);
  check_contains(warnings(copy), "differs: the stored head is used");

  edit(copy, [](std::vector<NamedTensor>& tensors) {
    tensors.erase(tensors.begin() + (&find(tensors, "model.embed_tokens.weight") - &tensors[0]));
  });
  const DecoderWeights alone = load(copy);
  CHECK(alone.embed_tokens.weight.plain().data == alone.lm_head.parts[0].weight.plain().data);
  CHECK(alone.embed_tokens.weight.plain().shape == Shape{320, 64});
}

TEST_CASE("weights: an untied head is needed and used") {
  Random2Options options;
  options.tie_word_embeddings = false;
  const fs::path dir = small_random2("weights-untied", options);
  const DecoderWeights w = load(dir);
  CHECK(!same_bytes(w.lm_head.parts[0].weight.plain(), w.embed_tokens.weight.plain()));
  edit(dir, [](std::vector<NamedTensor>& tensors) {
    tensors.erase(tensors.begin() + (&find(tensors, "lm_head.weight") - &tensors[0]));
  });
  check_contains(refusal(dir), "\"lm_head.weight\" [320, 64] is missing");
  check_contains(refusal(dir), "tie_word_embeddings");
}

TEST_CASE("weights: wrong shapes and types print expected and actual") {
  const fs::path dir = small_random2("weights-wrong");
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  const auto change = [&](const std::function<void(ConstTensor&)>& edit_tensor) {
    write_random2(dir, {.vocab_size = 320});
    edit(dir, [&](std::vector<NamedTensor>& tensors) { edit_tensor(find(tensors, name).tensor); });
    check_contains(refusal(dir), name);
    check_contains(refusal(dir), "model.safetensors");
    return refusal(dir);
  };
  const std::string shape = change([](ConstTensor& t) { t.shape = Shape{64, 64}; });
  check_contains(shape, "[64, 64], but config.json implies [128, 64]");
  check_contains(change([](ConstTensor& t) { t.shape = Shape{64, 128}; }), "[64, 128], but");
  check_contains(change([](ConstTensor& t) { t.shape = Shape{128 * 64}; }), "[8192], but");
  check_contains(change([](ConstTensor& t) { t.dtype = DType::kI16; }), "is I16, expected F32");
  // The config says one thing, the file another: also with the config's numbers changed.
  write_random2(dir, {.vocab_size = 320});
  ModelConfig config = random2_config({.vocab_size = 320});
  config.vocab_size = 321;
  write_text(dir / "config.json", config_json(config));
  check_contains(refusal(dir), "[320, 64], but config.json implies [321, 64]");
  config.vocab_size = 320;
  config.num_hidden_layers = 3;
  write_text(dir / "config.json", config_json(config));
  check_contains(refusal(dir), "\"model.layers.2.input_layernorm.weight\" [64] is missing");
}

TEST_CASE("weights: F16 and F32 files load, unaligned norms too") {
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    const fs::path dir = fresh_test_dir("weights-dtype");
    const auto fill = [](const std::string&, std::span<float> values, int64_t) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i % 7);
    };
    write_checkpoint(dir, random2_config({.vocab_size = 320}), fill, {}, dtype);
    const DecoderWeights w = load(dir);
    CHECK(w.lm_head.parts[0].weight.plain().dtype == dtype);
    for (int64_t i = 0; i < 64; ++i) CHECK(w.norm.weight[i] == 0.25f * static_cast<float>(i % 7));
  }
}

TEST_CASE("weights: a tensor inside a layer that nothing uses is refused") {
  const fs::path dir = small_random2("weights-no-place");
  const std::vector<float> values(4);
  const ConstTensor bias{reinterpret_cast<const std::byte*>(values.data()), DType::kF32, Shape{4}};
  edit(dir, [&](std::vector<NamedTensor>& tensors) {
    tensors.push_back({"model.layers.0.self_attn.q_proj.bias", bias});
  });
  check_contains(refusal(dir), "\"model.layers.0.self_attn.q_proj.bias\" has no place");
  check_contains(refusal(dir), "Qwen3ForCausalLM");
}

TEST_CASE("weights: extra tensors are ignored or said once") {
  const fs::path dir = small_random2("weights-extra");
  const std::vector<float> values(4);
  const ConstTensor extra{reinterpret_cast<const std::byte*>(values.data()), DType::kF32, Shape{4}};
  edit(dir, [&](std::vector<NamedTensor>& tensors) {
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", extra});
  });
  CHECK(warnings(dir) == "");
  edit(dir, [&](std::vector<NamedTensor>& tensors) {
    tensors.push_back({"model.extra.weight", extra});
    tensors.push_back({"zzz", extra});
  });
  const std::string text = warnings(dir);
  check_contains(text, "2 of the checkpoint's tensors not used");
  check_contains(text, "model.extra.weight");
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("weights: quantized modules without a config that says so are refused") {
  LLM_SKIP_WITHOUT_DATA("quantized fixtures without config");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"awq-w4-g128", "q_proj.qweight"},
      {"gptq-w4-sym-g128", "q_proj.qweight"},
      {"ct-w4a16-sym-g128", "q_proj.weight_packed"},
      {"fp8-block-partial", "q_proj.weight"},
      {"ct-w8a8-int8", "q_proj.weight"}};
  for (const auto& item : cases) {
    INFO(item.first);
    const fs::path fixture = shared_data() / "fixtures" / item.first;
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(fixture));
    std::string text = read_text_file(fixture / "config.json", 1 << 20);
    const size_t key = text.find("\"quantization_config\"");
    REQUIRE(key != std::string::npos);
    text.replace(key, 21, "\"not_this\"");
    std::string message;
    try {
      load_weights(parse_model_config(text, "config.json"), checkpoint, Log(Verbosity::kQuiet));
    } catch (const Error& e) {
      message = e.what();
    }
    check_contains(message, item.second + "\" is quantized, but config.json has no");
  }
}

TEST_CASE("random weights: the same for any number of threads, other for another seed") {
  ModelConfig config = random2_config({.vocab_size = 20000});  // several tasks per tensor
  ThreadPool one(1);
  ThreadPool three(3);
  const DecoderWeights a = random_weights(config, 7, one);
  const DecoderWeights b = random_weights(config, 7, three);
  const DecoderWeights c = random_weights(config, 8, one);
  const auto parts_a = all_parts(a);
  const auto parts_b = all_parts(b);
  const auto parts_c = all_parts(c);
  REQUIRE(parts_a.size() == 15);
  for (size_t i = 0; i < parts_a.size(); ++i) {
    CHECK(same_bytes(parts_a[i]->weight.plain(), parts_b[i]->weight.plain()));
    CHECK(!same_bytes(parts_a[i]->weight.plain(), parts_c[i]->weight.plain()));
  }
  // No two matrices of one shape are alike.
  CHECK(!same_bytes(a.layers[0].o_proj.parts[0].weight.plain(),
                    a.layers[1].o_proj.parts[0].weight.plain()));
  CHECK(!same_bytes(a.layers[0].qkv_proj.parts[1].weight.plain(),
                    a.layers[0].qkv_proj.parts[2].weight.plain()));
  CHECK(a.bytes == 2 * config.num_parameters());
  CHECK(a.norm.weight[63] == 1.0f);
}

TEST_CASE("random weights: mean 0, deviation 0.02, neighbours independent") {
  ModelConfig config = random2_config({.vocab_size = 20000});
  ThreadPool pool(2);
  const DecoderWeights w = random_weights(config, 1, pool);
  const ConstTensor table = w.embed_tokens.weight.plain();
  const BF16* values = table.as<BF16>();
  const int64_t n = table.shape.num_elements();
  double sum = 0;
  double squares = 0;
  double products = 0;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = to_float(values[i]);
    sum += x;
    squares += x * x;
    if (i > 0) products += x * to_float(values[i - 1]);
    largest = std::max(largest, std::abs(x));
  }
  // Five standard errors of each estimate over n values.
  const double count = static_cast<double>(n);
  CHECK(std::abs(sum / count) < 5 * 0.02 / std::sqrt(count));
  CHECK(std::abs(squares / count / 4e-4 - 1) < 5 * std::sqrt(2 / count));
  CHECK(std::abs(products / count / 4e-4) < 5 / std::sqrt(count));
  CHECK(largest > 3 * 0.02);
  CHECK(largest < 3.5 * 0.02);
}

TEST_CASE("random weights: biases and an untied head where the config has them") {
  ModelConfig config = random2_config({.vocab_size = 320});
  config.architecture = Architecture::kQwen2;
  config.qk_norm = false;
  config.qkv_bias = true;
  config.tie_word_embeddings = false;
  ThreadPool pool(1);
  const DecoderWeights w = random_weights(config, 1, pool);
  REQUIRE(w.layers[0].qkv_proj.parts[2].bias != nullptr);
  CHECK(w.layers[0].qkv_proj.parts[2].bias[5] != 0.0f);
  CHECK(w.layers[0].o_proj.parts[0].bias == nullptr);
  CHECK(!w.layers[0].q_norm);
  CHECK(w.lm_head.parts[0].weight.plain().data != w.embed_tokens.weight.plain().data);
}

TEST_CASE("shape weights: shapes of any size without memory") {
  const ModelConfig config = *named_model_config("qwen3-32b");
  const DecoderWeights w = shape_weights(config);
  REQUIRE(w.layers.size() == 64);
  CHECK(w.layers[63].qkv_proj.n() == 10240);
  CHECK(w.layers[63].down_proj.k == 25600);
  CHECK(w.lm_head.n() == 151936);
  CHECK(w.embed_tokens.weight.plain().data == nullptr);
  CHECK(w.norm.weight == nullptr);
  CHECK(w.bytes == 2 * config.num_parameters());
}

TEST_CASE("script: the head maps each token's embedding to the next token") {
  const fs::path dir = fresh_test_dir("script");
  const std::vector<int32_t> chain = {97, 174, 319};
  write_script(dir, chain, {.vocab_size = 320});
  const DecoderWeights w = load(dir);
  const BF16* table = w.embed_tokens.weight.plain().as<BF16>();
  const BF16* head = w.lm_head.parts[0].weight.plain().as<BF16>();
  const auto logit = [&](int32_t from, int32_t to) {
    float sum = 0;
    for (int64_t i = 0; i < 64; ++i) {
      sum += to_float(table[from * 64 + i]) * to_float(head[to * 64 + i]);
    }
    return sum;
  };
  for (int32_t to = 0; to < 320; ++to) {
    CHECK(logit(97, to) == (to == 174 ? 10.0f : 0.0f));
    CHECK(logit(174, to) == (to == 319 ? 10.0f : 0.0f));
    CHECK(logit(319, to) == 0.0f);
  }
  for (const DecoderLayer& layer : w.layers) {
    for (const Linear* linear : {&layer.o_proj, &layer.down_proj}) {
      const ConstTensor weight = linear->parts[0].weight.plain();
      for (int64_t i = 0; i < weight.bytes(); ++i) REQUIRE(weight.data[i] == std::byte{0});
    }
  }
}
