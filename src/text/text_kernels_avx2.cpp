#include <immintrin.h>

#include "text/text_kernels-inl.h"

namespace llm {
namespace {

class BytesAvx2 {
 public:
  static BytesAvx2 load(const char* text) {
    const auto* vectors = reinterpret_cast<const __m256i*>(text);
    return {_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)};
  }
  uint64_t beyond_ascii() const {
    return mask_of([](__m256i bytes) { return bytes; });
  }
  uint64_t equal(int byte) const {
    return mask_of([=](__m256i bytes) { return _mm256_cmpeq_epi8(bytes, all(byte)); });
  }
  uint64_t between(int first, int last) const {
    return mask_of([=](__m256i bytes) { return in_range(bytes, first, last); });
  }
  uint64_t at_least(int byte) const {
    return mask_of(
        [=](__m256i bytes) { return _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, all(byte)), bytes); });
  }
  uint64_t letters() const {
    return mask_of(
        [](__m256i bytes) { return in_range(_mm256_or_si256(bytes, all(0x20)), 'a', 'z'); });
  }

 private:
  BytesAvx2(__m256i low, __m256i high) : low_(low), high_(high) {}

  static __m256i all(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
  static __m256i in_range(__m256i bytes, int first, int last) {
    const __m256i distance = _mm256_sub_epi8(bytes, all(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(distance, all(last - first)), distance);
  }
  template <typename Compare>
  uint64_t mask_of(Compare compare) const {
    const auto low = static_cast<uint32_t>(_mm256_movemask_epi8(compare(low_)));
    const auto high = static_cast<uint32_t>(_mm256_movemask_epi8(compare(high_)));
    return low | static_cast<uint64_t>(high) << 32;
  }

  __m256i low_;
  __m256i high_;
};

}  // namespace

extern constinit const TextKernels kTextKernelsAvx2 = make_text_kernels<BytesAvx2>();

}  // namespace llm
