// Device functions whose names the C library keeps for itself: its headers declare them, nothing
// defines them. Rounded from double, so without the errors of the GPU's approximations.
#include "cuda/emu/intrinsics.h"

extern "C" {

float __expf(float x) noexcept { return static_cast<float>(std::exp(static_cast<double>(x))); }
float __logf(float x) noexcept { return static_cast<float>(std::log(static_cast<double>(x))); }
float __log2f(float x) noexcept { return static_cast<float>(std::log2(static_cast<double>(x))); }
float __log10f(float x) noexcept { return static_cast<float>(std::log10(static_cast<double>(x))); }
float __exp10f(float x) noexcept {
  return static_cast<float>(std::pow(10.0, static_cast<double>(x)));
}
float __sinf(float x) noexcept { return static_cast<float>(std::sin(static_cast<double>(x))); }
float __cosf(float x) noexcept { return static_cast<float>(std::cos(static_cast<double>(x))); }
float __tanf(float x) noexcept { return static_cast<float>(std::tan(static_cast<double>(x))); }
float __powf(float x, float y) noexcept {
  return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
}

}  // extern "C"
