// SPDX-License-Identifier: Apache-2.0
//
// read_pool FOLDER LIST THREADS: what a plain pool of threads makes of a file system. Each thread
// takes the next line of LIST, a path below FOLDER, opens it, reads it to its end and closes it.
// Prints seconds and bytes.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

namespace {

constexpr size_t kBuffer = 1 << 20;

// Bytes, or -1. A read that does not fill the buffer was the last.
ssize_t read_whole(const std::string& path, char* buffer) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t total = 0;
  ssize_t got = 0;
  do {
    got = ::read(file, buffer, kBuffer);
    total += got > 0 ? got : 0;
  } while (got == static_cast<ssize_t>(kBuffer));
  ::close(file);
  return got < 0 ? -1 : total;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "read_pool FOLDER LIST THREADS\n");
    return 2;
  }
  std::vector<std::string> paths;
  std::ifstream list(argv[2]);
  for (std::string line; std::getline(list, line);)
    paths.push_back(std::string(argv[1]) + "/" + line);
  std::atomic<size_t> next{0};
  std::atomic<ssize_t> bytes{0};
  std::atomic<size_t> failed{0};
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::atoi(argv[3]); ++i)
      threads.emplace_back([&] {
        const auto buffer = std::make_unique<char[]>(kBuffer);
        for (size_t path; (path = next++) < paths.size();) {
          const ssize_t got = read_whole(paths[path], buffer.get());
          got < 0 ? void(++failed) : void(bytes += got);
        }
      });
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print(R"({{"seconds": {:.6f}, "bytes": {}, "failed": {}}})"
             "\n",
             taken.count(), bytes.load(), failed.load());
  return failed > 0 ? 1 : 0;
}
