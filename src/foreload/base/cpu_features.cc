// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/cpu_features.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

#include <cstdint>
#endif

namespace foreload {
namespace {

#if defined(__x86_64__) && defined(__GNUC__)

struct Answer {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Answer ask_processor(unsigned leaf) {
  Answer answer;
  if (__get_cpuid_count(leaf, 0, &answer.eax, &answer.ebx, &answer.ecx, &answer.edx) == 0) {
    return {};
  }
  return answer;
}

constexpr bool has_all(uint64_t word, uint64_t bits) {
  return (word & bits) == bits;
}

// Which registers the system saves when it switches between threads. REQUIRES: OSXSAVE.
uint64_t saved_registers() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

CpuFeatures find_features() {
  constexpr unsigned kOsxsave = 1u << 27, kAvx = 1u << 28, kFma = 1u << 12, kF16c = 1u << 29;
  constexpr unsigned kAvx2 = 1u << 5;
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  constexpr unsigned kVnni = 1u << 11;
  constexpr uint64_t kYmm = 0x6, kZmm = 0xE6;

  const unsigned basic = ask_processor(1).ecx;
  if (!has_all(basic, kOsxsave | kAvx | kFma | kF16c)) return {};
  const uint64_t saved = saved_registers();
  const Answer extended = ask_processor(7);
  CpuFeatures features;
  features.avx2 = has_all(saved, kYmm) && has_all(extended.ebx, kAvx2);
  features.avx512 = features.avx2 && has_all(saved, kZmm) && has_all(extended.ebx, kAvx512) &&
                    has_all(extended.ecx, kVnni);
  return features;
}

#else

CpuFeatures find_features() {
  return {};
}

#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = find_features();
  return features;
}

}  // namespace foreload
