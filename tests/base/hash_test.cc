// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/hash.h"

#include <vector>

#include <gtest/gtest.h>

namespace foreload {
namespace {

TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum64({}), 0x2d06800538d394c2u);  // XXH3-64 of nothing, as published
}

TEST(Digester, TellsWhereOneValueEndsAndTheNextBegins) {
  Digester a;
  Digester b;
  a.add(std::string_view("ab")).add(std::string_view("c"));
  b.add(std::string_view("a")).add(std::string_view("bc"));
  EXPECT_NE(a.digest(), b.digest());
}

TEST(Digester, GivesTheDigestOfAllBytesInARow) {
  EXPECT_EQ(Digester().add('a').add('b').add('c').digest(), digest_of("abc"));
}

TEST(Digester, GivesTheSameForTheSame) {
  const std::vector<uint32_t> values{1, 2, 3};
  auto digest = [&] { return Digester().add(7).add(std::span<const uint32_t>(values)).digest(); };
  EXPECT_EQ(digest(), digest());
  EXPECT_EQ(digest().hex().size(), 32u);
}

}  // namespace
}  // namespace foreload
