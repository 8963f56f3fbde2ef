// Stands for the tests of tests/cuda/ where they can't be built.
#include <doctest/doctest.h>

#include "test_data.h"

namespace llm {

TEST_CASE("cuda kernels in the emulator") {
  skip_test("cuda kernels in the emulator", "headers of CUDA 12 or later", false);
}

}  // namespace llm
