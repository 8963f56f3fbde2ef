#include "backend/cpu/machine_speed-inl.h"
#include "backend/cpu/vec_generic.h"

namespace llm {

extern constinit const SpeedKernels kSpeedGeneric = {read_all, repeat_fma<VecGeneric>, nullptr,
                                                     VecGeneric::kLanes};

}  // namespace llm
