// A whole .safetensors file: length, JSON header, layout of the data.
#include "fuzz_input.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  const InputFile input(data, size);
  may_refuse([&] {
    const SafetensorsFile file = SafetensorsFile::open(input.path());
    // Every byte that an entry claims must be there.
    unsigned sum = 0;
    for (const auto& [name, entry] : file.entries()) {
      for (int64_t i = 0; i < entry.bytes; ++i) sum += static_cast<unsigned>(entry.data[i]);
    }
    volatile unsigned keep = sum;
    static_cast<void>(keep);
  });
  return 0;
}
