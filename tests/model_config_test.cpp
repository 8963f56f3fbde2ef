#include "model/model_config.h"

#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "checkpoint_maker.h"
#include "io/json.h"
#include "refusal.h"
#include "test_data.h"

using namespace llm;
namespace fs = std::filesystem;

namespace {

std::string refusal(const std::string& json) {
  return refusal_of([&] { parse_model_config(json, "config.json"); });
}

constexpr const char* kBase = R"("vocab_size": 320, "hidden_size": 128, "intermediate_size": 192,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512)";

/// A valid config of this class; `more` is appended: `, "key": value`.
std::string config(const std::string& more = "", const std::string& name = "Qwen3ForCausalLM") {
  return std::string("{\"architectures\": [\"") + name + "\"], " + kBase + more + "}";
}

/// The same with one of the base keys' values replaced.
std::string config_with(const std::string& key, const std::string& value) {
  std::string json = config();
  const size_t begin = json.find("\"" + key + "\": ") + key.size() + 4;
  const size_t end = json.find_first_of(",}", begin);
  return json.replace(begin, end - begin, value);
}

ModelConfig parse(const std::string& json) { return parse_model_config(json, "config.json"); }

/// Everything that both spellings can say.
void check_same(const ModelConfig& a, const ModelConfig& b) {
  CHECK(a.architecture == b.architecture);
  CHECK(a.vocab_size == b.vocab_size);
  CHECK(a.hidden_size == b.hidden_size);
  CHECK(a.head_dim == b.head_dim);
  CHECK(a.rope.type == b.rope.type);
  CHECK(a.rope.theta == b.rope.theta);
  CHECK(a.rope.factor == b.rope.factor);
  CHECK(a.rope.original_max_position_embeddings == b.rope.original_max_position_embeddings);
  CHECK(a.rope.attention_factor == b.rope.attention_factor);
  CHECK(rope_inv_freq(a.rope, a.head_dim) == rope_inv_freq(b.rope, b.head_dim));
}

}  // namespace

TEST_CASE("config: defaults of each architecture") {
  const ModelConfig qwen3 = parse(config());
  CHECK(qwen3.architecture == Architecture::kQwen3);
  CHECK(qwen3.head_dim == 128);  // not hidden_size / heads
  CHECK(qwen3.num_key_value_heads == 4);
  CHECK(qwen3.qk_norm);
  CHECK(!qwen3.qkv_bias);
  CHECK(!qwen3.tie_word_embeddings);
  CHECK(qwen3.rms_norm_eps == 1e-6);
  CHECK(qwen3.rope.theta == 10000.0);
  CHECK(qwen3.rope.type == RopeType::kDefault);
  CHECK(qwen3.eos_token_ids.empty());

  const ModelConfig qwen2 = parse(config("", "Qwen2ForCausalLM"));
  CHECK(qwen2.head_dim == 32);
  CHECK(qwen2.qkv_bias);
  CHECK(!qwen2.o_bias);
  CHECK(!qwen2.qk_norm);

  const ModelConfig llama = parse(config(", \"mlp_bias\": true", "LlamaForCausalLM"));
  CHECK(llama.head_dim == 32);
  CHECK(!llama.qkv_bias);
  CHECK(llama.mlp_bias);
  CHECK(parse(config(", \"attention_bias\": true")).o_bias);
  CHECK(parse(std::string("{\"model_type\": \"llama\", ") + kBase + "}").architecture ==
        Architecture::kLlama);
}

TEST_CASE("config: head_dim of the file wins (L12)") {
  const ModelConfig c = parse(config_json(random2_config()));
  CHECK(c.head_dim == 32);  // hidden_size / heads is 16
  CHECK(c.q_size() == 128);
  CHECK(c.kv_size() == 64);
  CHECK(c.group_size() == 2);
}

TEST_CASE("config: both spellings give the same settings (L13)") {
  Random2Options options;
  ModelConfig c = random2_config(options);
  FolderOptions old_style;
  old_style.old_style_config = true;
  check_same(parse(config_json(c)), parse(config_json(c, old_style)));
  CHECK(parse(config_json(c)).rope.theta == 1e6);
  c.rope.type = RopeType::kYarn;
  c.rope.factor = 4;
  c.rope.original_max_position_embeddings = 10240;
  check_same(parse(config_json(c)), parse(config_json(c, old_style)));
  CHECK(parse(config_json(c, old_style)).rope.type == RopeType::kYarn);
  check_same(parse(config(R"(, "rope_scaling": {"type": "linear", "factor": 2})")),
             parse(config(R"(, "rope_parameters": {"rope_type": "linear", "factor": 2})")));

  // Inside the dict wins over the top level; an empty old dict doesn't hide the new one.
  CHECK(parse(config(R"(, "rope_theta": 5, "rope_parameters": {"rope_theta": 7})")).rope.theta ==
        7);
  CHECK(parse(config(R"(, "rope_theta": 5, "rope_parameters": {})")).rope.theta == 5);
  CHECK(parse(config(R"(, "rope_scaling": {}, "rope_parameters": {"rope_theta": 7})")).rope.theta ==
        7);
}

TEST_CASE("config: every fixture parses, with the method that it was quantized by") {
  LLM_SKIP_WITHOUT_DATA("fixture configs");
  int plain = 0;
  int quantized = 0;
  int mixtures = 0;
  for (const auto& entry : fs::directory_iterator(shared_data() / "fixtures")) {
    const fs::path path = entry.path() / "config.json";
    if (!fs::exists(path)) continue;
    INFO(path);
    const JsonValue root = read_json_file(path);
    const ModelConfig c = load_model_config(entry.path());
    CHECK(c.vocab_size == 320);
    CHECK(c.eos_token_ids == std::vector<int32_t>{319});
    CHECK(c.tie_word_embeddings == root.find("tie_word_embeddings")->boolean);
    if (const JsonValue* quantization = root.find("quantization_config")) {
      REQUIRE(c.quantization);
      CHECK(name_of(c.quantization->method) == quantization->find("quant_method")->string);
      ++quantized;
    } else {
      CHECK(!c.quantization);
      ++plain;
    }
    mixtures += c.moe ? 1 : 0;
  }
  CHECK(plain == 10);
  CHECK(mixtures == 2);
  CHECK(quantized == 24);
}

TEST_CASE("config: experts in both spellings, and which layers have them") {
  const auto mixture = [](const std::string& more) {
    return config(", \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32" + more,
                  "Qwen3MoeForCausalLM");
  };
  const ModelConfig plain = parse(mixture(R"(, "num_experts": 8)"));
  REQUIRE(plain.moe);
  CHECK(plain.moe->num_experts == 8);
  CHECK(plain.moe->num_experts_per_tok == 2);
  CHECK(plain.moe->moe_intermediate_size == 32);
  CHECK(!plain.moe->norm_topk_prob);
  CHECK(plain.moe->is_sparse(0));
  CHECK(plain.qk_norm);
  const ModelConfig mixed = parse(
      mixture(R"(, "num_local_experts": 8, "norm_topk_prob": true, "decoder_sparse_step": 2)"));
  CHECK(mixed.moe->norm_topk_prob);
  CHECK(!mixed.moe->is_sparse(0));
  CHECK(mixed.moe->is_sparse(1));
  const ModelConfig listed = parse(mixture(R"(, "num_experts": 8, "mlp_only_layers": [0])"));
  CHECK(!listed.moe->is_sparse(0));
  CHECK(!parse(mixture(R"(, "num_experts": 0)")).moe->is_sparse(0));
  // An MLP of I becomes 8 of 32 and a router: 3 I H to (8 * 3 * 32 + 8) H.
  CHECK(plain.num_parameters() - listed.num_parameters() ==
        (8 * 3 * 32 + 8 - 3 * plain.intermediate_size) * plain.hidden_size);
  check_contains(refusal(mixture(R"(, "num_experts": 1)")), "\"num_experts_per_tok\" is 2");
  check_contains(refusal(mixture(R"(, "num_experts": 8, "mlp_only_layers": ["a"])")),
                 "\"mlp_only_layers\" is \"a\"");
}

TEST_CASE("config: quantization that can't be loaded stops, naming key and value") {
  const auto refused = [](const std::string& quantization) {
    return refusal(config(", \"quantization_config\": {" + quantization + "}"));
  };
  check_contains(refused(R"("quant_method": "bitsandbytes")"), "\"bitsandbytes\" can't be loaded");
  check_contains(refused(R"("quant_method": "awq", "bits": 3)"), "\"bits\" is 3");
  check_contains(refused(R"("quant_method": "awq", "version": "gemv")"), "\"version\" is \"gemv\"");
  CHECK(refused(R"("quant_method": "awq", "version": "GEMM")") == "");
  check_contains(refused(R"("quant_method": "gptq", "bits": 5)"), "\"bits\" is 5");
  check_contains(refused(R"("quant_method": "gptq", "bits": 4, "group_size": 20)"),
                 "\"group_size\" is 20");
  check_contains(refused(R"("quant_method": "gptq", "checkpoint_format": "marlin")"),
                 "\"checkpoint_format\" is \"marlin\"");
  check_contains(refused(R"("quant_method": "gptq", "pack_dtype": "int64")"),
                 "\"pack_dtype\" is \"int64\"");
  check_contains(refused(R"("quant_method": "compressed-tensors")"), "config_groups");
  const std::string groups = R"("quant_method": "compressed-tensors", "config_groups": {"g": )";
  check_contains(refused(groups + R"({"weights": {"num_bits": 3}}})"), "\"num_bits\" is 3");
  check_contains(refused(groups + R"({"format": "nvfp4-pack-quantized"}})"), "nvfp4");
  check_contains(refused(groups + R"({}}, "sparsity_config": {"format": "dense"})"),
                 "sparsity_config");
  check_contains(refused(R"("quant_method": "fp8", "scale_fmt": "ue8m0")"), "\"scale_fmt\"");
  check_contains(refused(R"("quant_method": "fp8", "weight_block_size": [128])"),
                 "weight_block_size");
}

TEST_CASE("config: what isn't known stops, naming key and value") {
  check_contains(refusal(config("", "GemmaForCausalLM")), "\"GemmaForCausalLM\" is not supported");
  check_contains(refusal(config("", "Qwen3MoeForCausalLM")), "\"num_local_experts\"");
  check_contains(refusal(config(", \"model_type\": \"llama\"")), "\"model_type\" is \"llama\"");
  check_contains(refusal(std::string("{\"architectures\": [], ") + kBase + "}"), "architectures");
  check_contains(refusal(std::string("{\"model_type\": \"bert\", ") + kBase + "}"), "\"bert\"");
  check_contains(refusal(std::string("{") + kBase + "}"), "neither");
  check_contains(refusal(config(", \"hidden_act\": \"gelu\"")), "\"hidden_act\" is \"gelu\"");
  check_contains(refusal(config(", \"use_sliding_window\": true, \"sliding_window\": 4096")),
                 "use_sliding_window");
  check_contains(refusal(config(", \"use_sliding_window\": true")), "use_sliding_window");
  CHECK(refusal(config(", \"use_sliding_window\": true, \"sliding_window\": null")) == "");
  CHECK(refusal(config(", \"use_sliding_window\": false, \"sliding_window\": 4096")) == "");
  check_contains(refusal(config(R"(, "layer_types": ["full_attention", "sliding_attention"])")),
                 "\"layer_types\" is \"sliding_attention\"");
  check_contains(refusal(config(", \"num_experts\": 8")), "\"num_experts\" is 8");
  check_contains(refusal(config(R"(, "quantization_config": {"bits": 4})")), "(missing)");
  check_contains(refusal(config(R"(, "quantization_config": 3)")), "quantization_config");
  check_contains(refusal(config(R"(, "partial_rotary_factor": 0.5)")), "partial_rotary_factor");
  check_contains(refusal(config(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2})")),
                 "\"rope_type\" is \"dynamic\"");
  check_contains(refusal(config(R"(, "rope_scaling": {"type": "su"})")), "\"type\" is \"su\"");
  check_contains(refusal(config(R"(, "rope_scaling": {"type": "yarn"})")), "\"factor\" is missing");
  check_contains(refusal(config(R"(, "rope_scaling": {"type": "yarn", "factor": 0.5})")),
                 "\"factor\" is 0.5");
  check_contains(refusal(config(R"(, "rope_scaling": 4)")), "found 4");
  check_contains(refusal(config(R"(, "rope_parameters": {"full_attention": {}})")),
                 "full_attention");
  check_contains(refusal(config(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 2,
      "original_max_position_embeddings": 8, "low_freq_factor": 4, "high_freq_factor": 4})")),
                 "\"high_freq_factor\" 4 is not above");
}

TEST_CASE("config: absurd numbers and wrong types are refused") {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings"}) {
    for (const char* value : {"0", "-1", "1e30", "1099511627776", "18446744073709551616", "1.5",
                              "\"8\"", "true", "[1]"}) {
      INFO(key, " ", value);
      check_contains(refusal(config_with(key, value)), std::string("\"") + key + "\" is ");
    }
    check_contains(refusal(config_with(key, "null")), std::string("\"") + key + "\" is missing");
  }
  check_contains(refusal(config(", \"num_key_value_heads\": 3")), "not a multiple");
  check_contains(refusal(config(", \"num_key_value_heads\": 0")), "\"num_key_value_heads\" is 0");
  check_contains(refusal(config(", \"head_dim\": 63")), "\"head_dim\" is 63");
  check_contains(refusal(config(", \"head_dim\": 0")), "\"head_dim\" is 0");
  check_contains(refusal(config(", \"head_dim\": 100000")), "\"head_dim\" is 100000");
  check_contains(refusal(config(", \"rms_norm_eps\": -1")), "\"rms_norm_eps\" is -1");
  check_contains(refusal(config(", \"rope_theta\": 0")), "\"rope_theta\" is 0");
  check_contains(refusal(config(", \"tie_word_embeddings\": 1")), "\"tie_word_embeddings\" is 1");
  check_contains(refusal(config(", \"eos_token_id\": \"x\"")), "\"eos_token_id\" is \"x\"");
  check_contains(refusal("[]"), "expected a JSON object");
  check_contains(refusal(""), "not valid JSON");
  check_contains(refusal(config(", \"vocab_size\": 7")), "\"vocab_size\" appears twice");
}

TEST_CASE("config: a folder without config.json") {
  const fs::path dir = fresh_test_dir("config-none");
  std::string message;
  try {
    load_model_config(dir);
  } catch (const Error& e) {
    message = e.what();
  }
  check_contains(message, "there is no config.json");
}

TEST_CASE("config: named models have their published parameter counts") {
  // As the hub shows them for the safetensors files (a tied head counted once).
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"qwen3-0.6b", 596'049'920},    {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},    {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},  {"qwen3-32b", 32'762'123'264},
      {"qwen2.5-0.5b", 494'032'768},  {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-7b", 7'615'616'512},  {"llama3-8b", 8'030'261'248},
      {"llama3.2-1b", 1'235'814'400}, {"smollm2-135m", 134'515'008}};
  CHECK(model_config_names().size() == published.size());
  for (const auto& item : published) {
    const std::string& name = item.first;
    INFO(name);
    const std::optional<ModelConfig> c = named_model_config(name);
    REQUIRE(c);
    CHECK(c->num_parameters() == item.second);
  }
  CHECK(!named_model_config("qwen3-0.7b"));
  CHECK(!named_model_config("Qwen3-0.6B"));
}

TEST_CASE("config: a named model equals its own config.json read back") {
  for (const std::string& name : model_config_names()) {
    INFO(name);
    const ModelConfig named = *named_model_config(name);
    const ModelConfig read = parse(config_json(named));
    check_same(named, read);
    CHECK(read.num_parameters() == named.num_parameters());
  }
}
