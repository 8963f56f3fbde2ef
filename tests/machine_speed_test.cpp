#include "backend/cpu/machine_speed.h"

#include <doctest/doctest.h>

#include "base/cpu_info.h"

namespace llm {
namespace {

// Bounds that no machine leaves: what matters is that every figure is measured and finite, and
// that reading memory checks its own sum.
TEST_CASE("machine speed is measured on every instruction set") {
  ThreadPool pool(2);
  for (const Isa isa : {supported_isas().front(), supported_isas().back()}) {
    CAPTURE(name_of(isa));
    const MachineSpeed speed = measure_machine(pool, isa, int64_t{1} << 30);
    CHECK(speed.read_gbs > 0.01);
    CHECK(speed.read_gbs < 1e5);
    CHECK(speed.f32_gflops > 0.1);
    CHECK(speed.f32_gflops < 1e6);
    CHECK((speed.bf16_gflops > 0.0) == (isa == Isa::kAvx512Bf16));
  }
}

}  // namespace
}  // namespace llm
