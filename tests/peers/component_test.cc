// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "loopback_job.h"

namespace foreload {
namespace {

TEST(Component, UnknownKind) {
  const auto made = load_transport("pigeons", {}, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_NE(made.error().message.find("pigeons"), std::string::npos);
}

TEST(Component, NotInstalled) {
  const TemporaryFolder job;
  for (const std::string kind : {"ucx", "mpi"}) {
    TransportSettings settings;
    settings.components = job.path();
    const auto made = load_transport(kind, settings, {});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::unreadable);
    EXPECT_NE(made.error().message.find("Install"), std::string::npos);
    EXPECT_NE(made.error().message.find(job.path().string()), std::string::npos);
  }
}

TEST(Component, FileThatIsNoLibrary) {
  const TemporaryFolder job;
  std::ofstream(job.path() / "libforeload_ucx.so") << "no library";
  TransportSettings settings;
  settings.components = job.path();
  const auto made = load_transport("ucx", settings, {});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("libforeload_ucx.so"), std::string::npos);
}

TEST(Component, ModuleOfAnotherBorderIsRefused) {
  TransportSettings settings;
  settings.components = FORELOAD_TEST_OLD_MODULES;
  const auto made = load_transport("ucx", settings, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_NE(made.error().message.find("another build"), std::string::npos);
}

}  // namespace
}  // namespace foreload
