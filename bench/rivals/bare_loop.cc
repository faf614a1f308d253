// SPDX-License-Identifier: Apache-2.0
//
// The least that any loader with foreload's kernels must do: the files lie in memory, threads take
// one after the other and decode, resize, flip and normalise the crops that foreload.DataLoader
// would draw, each into the same small piece of memory again and again. No batches, no reading, no
// Python. What a loader loses against this is what it costs itself.
//
//   bare_loop FOLDER EPOCHS THREADS [fast]
//
// Prints one JSON object, like the other contestants.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/parallel.h"
#include "foreload/decode/transform.h"
#include "foreload/plan/order.h"
#include "foreload/sources/listing.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using Files = std::vector<std::vector<std::byte>>;

constexpr uint64_t kSeed = 0;
constexpr uint32_t kSide = 224;

Result<Files> read_files(const std::string& folder) {
  FORELOAD_TRY(const Listing listing, list_folder(folder));
  Files files;
  for (const ListedFile& file : listing.files) {
    std::ifstream in(folder + "/" + file.name, std::ios::binary);
    files.emplace_back(file.size);
    if (!in.read(reinterpret_cast<char*>(files.back().data()),
                 static_cast<std::streamsize>(file.size)))
      return fail(ErrorKind::unreadable, "cannot read " + file.name);
  }
  return files;
}

Result<std::string> run(const std::string& folder, uint64_t epochs, unsigned threads, bool fast) {
  FORELOAD_TRY(const Files files, read_files(folder));
  FORELOAD_TRY(const auto order, make_order(OrderKind::torch, files.size(), kSeed));
  FORELOAD_TRY(
      const auto chain,
      Transform::compile({step::Decode{.fast = fast}, step::RandomResizedCrop{{kSide, kSide}},
                          step::RandomHorizontalFlip{},
                          step::Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                          step::ToLayout{}}));
  std::vector<Scratch> scratch(threads);
  std::vector<std::vector<std::byte>> out(threads, std::vector<std::byte>(chain->form().bytes()));
  std::string lines;
  std::atomic<uint64_t> failed{0};
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    FORELOAD_TRY(const auto samples, order->epoch(epoch));
    std::vector<uint64_t> list(files.size());
    samples->read(0, list);
    const auto begin = Clock::now();
    parallel_for(files.size(), threads, [&](uint64_t position, unsigned worker) {
      if (!chain->run(files[list[position]], {kSeed, epoch, position}, out[worker],
                      scratch[worker]))
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
  if (argc < 4) {
    fmt::print(stderr, "usage: bare_loop FOLDER EPOCHS THREADS [fast]\n");
    return 2;
  }
  const auto result = foreload::run(argv[1], std::strtoull(argv[2], nullptr, 10),
                                    static_cast<unsigned>(std::atoi(argv[3])),
                                    argc > 4 && std::string(argv[4]) == "fast");
  if (!result) {
    fmt::print(stderr, "bare_loop: {}\n", result.error().message);
    return 1;
  }
  fmt::print("{}\n", *result);
  return 0;
}
