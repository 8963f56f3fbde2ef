#include <immintrin.h>

#include "text/text_kernels-inl.h"

namespace llm {
namespace {

class BytesAvx512 {
 public:
  static BytesAvx512 load(const char* text) { return BytesAvx512(_mm512_loadu_si512(text)); }
  uint64_t beyond_ascii() const { return _mm512_movepi8_mask(bytes_); }
  uint64_t equal(int byte) const { return _mm512_cmpeq_epi8_mask(bytes_, all(byte)); }
  uint64_t between(int first, int last) const { return in_range(bytes_, first, last); }
  uint64_t at_least(int byte) const { return _mm512_cmpge_epu8_mask(bytes_, all(byte)); }
  uint64_t letters() const { return in_range(_mm512_or_si512(bytes_, all(0x20)), 'a', 'z'); }

 private:
  explicit BytesAvx512(__m512i bytes) : bytes_(bytes) {}

  static __m512i all(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }
  static uint64_t in_range(__m512i bytes, int first, int last) {
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, all(first)), all(last - first));
  }

  __m512i bytes_;
};

}  // namespace

extern constinit const TextKernels kTextKernelsAvx512 = make_text_kernels<BytesAvx512>();

}  // namespace llm
