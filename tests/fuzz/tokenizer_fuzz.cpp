// tokenizer.json; a tokenizer that loads must then encode and decode.
#include <vector>

#include "fuzz_input.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  const InputFile input(data, size);
  may_refuse([&] {
    const Tokenizer tokenizer = Tokenizer::load(input.path());
    for (const AddedTokens recognised :
         {AddedTokens::kAll, AddedTokens::kNonSpecial, AddedTokens::kNone}) {
      const std::vector<int32_t> ids =
          tokenizer.encode("ab  abab<end>\n 12 it's \u4e2d\u56fd e\u0301 \U0001f600", recognised);
      for (const int32_t id : ids) {
        if (!tokenizer.has_token(id) || id >= tokenizer.num_ids()) std::abort();
      }
      tokenizer.decode(ids);
    }
  });
  return 0;
}
