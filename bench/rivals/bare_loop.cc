// SPDX-License-Identifier: Apache-2.0
//
// The least that any loader with foreload's kernels must do: the files lie in memory, threads take
// one after the other and decode, resize, flip and normalise the crops that foreload.DataLoader
// would draw. No reading, no Python, nobody who waits. What a loader loses against this is what it
// costs itself.
//
//   bare_loop FOLDER EPOCHS THREADS PLACES
//
// PLACES is how many results are kept at a time, one after the other in memory: 256 are four
// batches, as loaders have them; 1 for each thread throws results away while they are in the cache.
// Prints one JSON object, like the other contestants.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/parallel.h"
#include "foreload/decode/transform.h"
#include "foreload/formats/listing.h"
#include "foreload/plan/order.h"
#include "foreload/stores/file_store.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using Files = std::vector<std::vector<std::byte>>;

constexpr uint64_t kSeed = 0;
constexpr uint32_t kSide = 224;

Result<Files> read_files(const std::string& folder) {
  FORELOAD_TRY(const Listing listing, list_folder(FileStore(folder)));
  Files files;
  for (const StoredObject& file : listing.files) {
    std::ifstream in(folder + "/" + file.name, std::ios::binary);
    files.emplace_back(file.size);
    if (!in.read(reinterpret_cast<char*>(files.back().data()),
                 static_cast<std::streamsize>(file.size)))
      return fail(ErrorKind::unreadable, "cannot read " + file.name);
  }
  return files;
}

Result<std::string> run(const std::string& folder, uint64_t epochs, unsigned threads,
                        uint64_t places) {
  FORELOAD_TRY(const Files files, read_files(folder));
  FORELOAD_TRY(const auto order, make_order({}, files.size(), kSeed));
  FORELOAD_TRY(
      const auto chain,
      Transform::compile({step::RandomResizedCrop{{kSide, kSide}}, step::RandomHorizontalFlip{},
                          step::Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                          step::ToLayout{}}));
  std::vector<Scratch> scratch(threads);
  const uint64_t bytes = chain->form().bytes();
  std::vector<std::byte> out(std::max<uint64_t>(places, threads) * bytes);
  std::string lines;
  std::atomic<uint64_t> failed{0};
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    FORELOAD_TRY(const auto samples, order->epoch(epoch));
    std::vector<uint64_t> list(files.size());
    samples->read(0, list);
    const auto begin = Clock::now();
    parallel_for(files.size(), threads, [&](uint64_t position, unsigned worker) {
      const uint64_t place = places <= threads ? worker : position % places;
      if (!chain->run(files[list[position]], {kSeed, epoch, position},
                      std::span(out).subspan(place * bytes, bytes), scratch[worker]))
        ++failed;
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    lines += fmt::format("{}{{\"seconds\": {}, \"images\": {}, \"first_wait\": 0}}",
                         epoch == 0 ? "" : ", ", seconds, files.size());
  }
  if (failed > 0)
    return fail(ErrorKind::corrupt, fmt::format("{} images cannot be decoded", failed.load()));
  return fmt::format("{{\"epochs\": [{}]}}", lines);
}

}  // namespace
}  // namespace foreload

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: bare_loop FOLDER EPOCHS THREADS PLACES\n");
    return 2;
  }
  const auto result =
      foreload::run(argv[1], std::strtoull(argv[2], nullptr, 10),
                    static_cast<unsigned>(std::atoi(argv[3])), std::strtoull(argv[4], nullptr, 10));
  if (!result) {
    fmt::print(stderr, "bare_loop: {}\n", result.error().message);
    return 1;
  }
  fmt::print("{}\n", *result);
  return 0;
}
