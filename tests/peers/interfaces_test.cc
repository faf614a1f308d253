// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/interfaces.h"

#include <gtest/gtest.h>

namespace foreload {
namespace {

TEST(Interfaces, TheHostItself) {
  const auto name = interface_towards("127.0.0.1");
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_EQ(*name, "lo");
  EXPECT_EQ(interface_towards("localhost").value_or(""), "lo");
}

TEST(Interfaces, UnknownHost) {
  const auto name = interface_towards("no host has this name");
  ASSERT_FALSE(name);
  EXPECT_NE(name.error().message.find("no host has this name"), std::string::npos);
}

}  // namespace
}  // namespace foreload
