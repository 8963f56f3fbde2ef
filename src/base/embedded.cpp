#include "base/embedded.h"

// Puts a file's bytes between the labels NAME_begin and NAME_end. The assembler looks for the path
// in the compiler's working folder, which is the top of the source tree under make; the Makefile's
// EMBEDDED lists the same files, so that a change of one rebuilds this object.
#define LLM_EMBED(name, path)                                             \
  asm(".pushsection .rodata\n"                                            \
      ".balign 64\n"                                                      \
      ".global " #name                                                    \
      "_begin\n"                                                          \
      ".hidden " #name "_begin\n" #name                                   \
      "_begin:\n"                                                         \
      ".incbin \"" path                                                   \
      "\"\n"                                                              \
      ".global " #name                                                    \
      "_end\n"                                                            \
      ".hidden " #name "_end\n" #name                                     \
      "_end:\n"                                                           \
      ".byte 0\n"                                                         \
      ".popsection\n");                                                   \
  extern "C" {                                                            \
  __attribute__((visibility("hidden"))) extern const char name##_begin[]; \
  __attribute__((visibility("hidden"))) extern const char name##_end[];   \
  }

#define LLM_EMBED_MODEL(name, folder)                                   \
  LLM_EMBED(name##_config, folder "/config.json")                       \
  LLM_EMBED(name##_generation_config, folder "/generation_config.json") \
  LLM_EMBED(name##_tokenizer, folder "/tokenizer.json")                 \
  LLM_EMBED(name##_tokenizer_config, folder "/tokenizer_config.json")   \
  LLM_EMBED(name##_weights, folder "/model.safetensors")

LLM_EMBED(llm_models_txt, "models.txt")
LLM_EMBED(llm_download_model, "scripts/download_model.sh")
LLM_EMBED_MODEL(llm_tiny, "models/tiny")
LLM_EMBED_MODEL(llm_tiny_draft, "models/tiny-draft")

namespace llm {
namespace {

struct File {
  std::string_view path;
  const char* begin;
  const char* end;
};

#define LLM_FILE(path, name) \
  { path, name##_begin, name##_end }
#define LLM_MODEL_FILES(name, folder)                                       \
  LLM_FILE(folder "/config.json", name##_config),                           \
      LLM_FILE(folder "/generation_config.json", name##_generation_config), \
      LLM_FILE(folder "/tokenizer.json", name##_tokenizer),                 \
      LLM_FILE(folder "/tokenizer_config.json", name##_tokenizer_config),   \
      LLM_FILE(folder "/model.safetensors", name##_weights)

constexpr File kFiles[] = {
    LLM_FILE("models.txt", llm_models_txt),
    LLM_FILE("scripts/download_model.sh", llm_download_model),
    LLM_MODEL_FILES(llm_tiny, "models/tiny"),
    LLM_MODEL_FILES(llm_tiny_draft, "models/tiny-draft"),
};

}  // namespace

std::optional<std::string_view> embedded_file(std::string_view path) {
  for (const File& file : kFiles) {
    if (file.path == path) return std::string_view(file.begin, file.end);
  }
  return std::nullopt;
}

}  // namespace llm
