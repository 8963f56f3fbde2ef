#include "backend/cpu/machine_speed-inl.h"
#include "backend/cpu/vec_avx2.h"

namespace llm {

extern constinit const SpeedKernels kSpeedAvx2 = {read_all, repeat_fma<VecAvx2>, nullptr,
                                                  VecAvx2::kLanes};

}  // namespace llm
