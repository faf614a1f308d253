// SPDX-License-Identifier: Apache-2.0
//
// Training programs change the environment while threads decode, and glibc frees what getenv()
// looks at. This program's own getenv(), which libraries get too, counts who asks.
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/decode/decoder.h"

#include "jpeg_maker.h"

namespace {

thread_local int asked = 0;

}  // namespace

extern "C" char* getenv(const char* name) noexcept {
  ++asked;
  const size_t length = std::strlen(name);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, name, length) == 0 && (*variable)[length] == '=')
      return *variable + length + 1;
  }
  return nullptr;
}

namespace foreload {
namespace {

void decode_at_all_sizes(std::span<const std::byte> file, Scratch& scratch) {
  const Result<ImageHeader> header = read_header(file, {});
  ASSERT_TRUE(header);
  for (const unsigned shrink : {1u, 2u, 4u, 8u}) {
    const Region region{0, 0, (header->size.width + shrink - 1) / shrink,
                        (header->size.height + shrink - 1) / shrink};
    EXPECT_TRUE(decode(file, *header, {}, region, shrink, scratch.decoded, scratch));
  }
}

TEST(Environment, IsNotAskedForByAThreadThatHasWarmedUp) {
  std::vector<std::vector<std::byte>> files;
  files.push_back(make_jpeg({.width = 100, .height = 80}));
  files.push_back(make_jpeg({.width = 33, .height = 17, .progressive = true}));
  std::thread([&files] {
    Scratch scratch;
    warm_up(scratch);
    asked = 0;
    for (int round = 0; round < 3; ++round)
      for (const std::vector<std::byte>& file : files) decode_at_all_sizes(file, scratch);
    EXPECT_EQ(asked, 0);
  }).join();
}

TEST(Environment, IsAskedForThroughThisProgram) {
  asked = 0;
  EXPECT_NE(std::getenv("PATH"), nullptr);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace foreload
