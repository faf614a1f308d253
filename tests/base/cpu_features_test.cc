// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/cpu_features.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace foreload {
namespace {

// What the kernel says of the first processor; it names what it lets programs use.
std::set<std::string> flags_in_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

bool has_all(const std::set<std::string>& flags, std::initializer_list<const char*> wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const char* flag) { return flags.contains(flag); });
}

TEST(CpuFeatures, AreThoseTheKernelNames) {
  const auto flags = flags_in_cpuinfo();
  const bool avx2 = has_all(flags, {"avx2", "fma", "f16c"});
  EXPECT_EQ(cpu_features().avx2, avx2);
  EXPECT_EQ(cpu_features().avx512,
            avx2 && has_all(flags, {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}));
}

}  // namespace
}  // namespace foreload
