#include "backend/cpu/machine_speed-inl.h"
#include "backend/cpu/vec_avx512.h"

namespace llm {

extern constinit const SpeedKernels kSpeedAvx512Bf16 = {read_all, repeat_fma<VecAvx512>,
                                                        repeat_dot<VecAvx512>, VecAvx512::kLanes};

}  // namespace llm
