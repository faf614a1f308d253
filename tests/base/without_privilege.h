// SPDX-License-Identifier: Apache-2.0
//
// Takes root's right to pass over file permissions from the calling thread, and from the threads it
// starts meanwhile, so that tests of refused access mean something when they run as root. Without
// effect for anybody else.
#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include <gtest/gtest.h>

namespace foreload {

class WithoutPrivilege {
 public:
  WithoutPrivilege() {
    EXPECT_EQ(::syscall(SYS_capget, &header_, before_.data()), 0);
    auto without = before_;
    without[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    EXPECT_EQ(::syscall(SYS_capset, &header_, without.data()), 0);
  }
  ~WithoutPrivilege() { ::syscall(SYS_capset, &header_, before_.data()); }
  WithoutPrivilege(const WithoutPrivilege&) = delete;
  WithoutPrivilege& operator=(const WithoutPrivilege&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_{};
};

}  // namespace foreload
