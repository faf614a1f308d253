// SPDX-License-Identifier: Apache-2.0
//
// The foreload side of beside_pillow.py: makes training samples (RandomResizedCrop to 224, a flip)
// of files, one after the other in one thread. For each line "FILE FIRST COUNT" on standard input
// it makes those of positions FIRST to FIRST + COUNT - 1 of the file with that number, and answers
// with the nanoseconds of CPU time, the page faults, and a sum over all pixels.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "foreload/decode/transform.h"

namespace {

int64_t cpu_nanoseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace

int main(int count, char** arguments) {
  using namespace foreload;
  std::vector<std::string> files;
  for (int i = 1; i < count; ++i) {
    std::ifstream in(arguments[i], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  const auto transform = Transform::compile(
      {step::Decode{}, step::RandomResizedCrop{.size = {224, 224}}, step::RandomHorizontalFlip{}});
  if (!transform) return std::fputs(transform.error().message.c_str(), stderr), 1;
  std::vector<std::byte> sample((*transform)->form().bytes());
  Scratch scratch;
  unsigned long file = 0, first = 0, samples = 0;
  while (std::scanf("%lu %lu %lu", &file, &first, &samples) == 3 && file < files.size()) {
    uint64_t sum = 0;
    const long faults = page_faults();
    const int64_t begin = cpu_nanoseconds();
    for (uint64_t position = first; position < first + samples; ++position) {
      const auto done =
          (*transform)
              ->run(std::as_bytes(std::span(files[file])), {0, 0, position}, sample, scratch);
      if (!done) return std::fputs(done.error().message.c_str(), stderr), 1;
      for (const std::byte value : sample) sum += std::to_integer<uint64_t>(value);
    }
    const int64_t time = cpu_nanoseconds() - begin;
    std::printf("%lld %ld %llu\n", static_cast<long long>(time), page_faults() - faults,
                static_cast<unsigned long long>(sum));
    std::fflush(stdout);
  }
  return 0;
}
