#include "backend/cpu/machine_speed-inl.h"
#include "backend/cpu/vec_avx512.h"

namespace llm {

extern constinit const SpeedKernels kSpeedAvx512 = {read_all, repeat_fma<VecAvx512>, nullptr,
                                                    VecAvx512::kLanes};

}  // namespace llm
