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

LLM_EMBED(llm_models_txt, "models.txt")
LLM_EMBED(llm_download_model, "scripts/download_model.sh")

namespace llm {
namespace {

struct File {
  std::string_view path;
  const char* begin;
  const char* end;
};

constexpr File kFiles[] = {
    {"models.txt", llm_models_txt_begin, llm_models_txt_end},
    {"scripts/download_model.sh", llm_download_model_begin, llm_download_model_end},
};

}  // namespace

std::optional<std::string_view> embedded_file(std::string_view path) {
  for (const File& file : kFiles) {
    if (file.path == path) return std::string_view(file.begin, file.end);
  }
  return std::nullopt;
}

}  // namespace llm
