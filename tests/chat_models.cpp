#include "chat_models.h"

#include <filesystem>

#include "test_data.h"

namespace llm {

std::string chat_model(const char* name, const std::vector<int32_t>& chain, bool loop) {
  const std::filesystem::path dir = fresh_test_dir(name) / "model";
  ScriptOptions options;
  options.loop = loop;
  options.folder.tokenizer_json = qwen3_tokenizer_json();
  options.folder.generation_eos = {id::kEnd};
  write_script(dir, chain, options);
  const std::filesystem::path config = shared_data() / "qwen3-tokenizer" / "tokenizer_config.json";
  std::filesystem::create_symlink(std::filesystem::absolute(config), dir / "tokenizer_config.json");
  return dir.string();
}

std::string thinking_model(const char* name) {
  return chat_model(name, {id::kNewline, id::kThink, id::kHello, id::kEndThink, id::kTwoNewlines,
                           id::kDone, id::kEnd});
}

std::string endless_model(const char* name) {
  return chat_model(name, {id::kTwoNewlines, id::kHello, id::kDone}, /*loop=*/true);
}

}  // namespace llm
