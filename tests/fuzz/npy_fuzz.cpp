// A .npy file.
#include "fuzz_input.h"
#include "io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llm;
  const InputFile input(data, size);
  may_refuse([&] {
    const NpyMatrix matrix = read_npy(input.path());
    if (static_cast<size_t>(matrix.rows * matrix.cols) != matrix.values.size()) std::abort();
  });
  return 0;
}
