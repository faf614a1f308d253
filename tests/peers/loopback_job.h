// SPDX-License-Identifier: Apache-2.0
//
// A job of several ranks on the loopback interface, which meet in a folder that goes away with it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "foreload/peers/transport.h"

namespace foreload {

inline TransportSettings loopback_settings(const std::filesystem::path& folder, uint32_t rank,
                                           uint32_t ranks, const std::string& components) {
  TransportSettings settings;
  settings.rank = rank;
  settings.ranks = ranks;
  settings.interface = "lo";
  settings.secret[0] = std::byte{1};
  settings.rendezvous = std::move(*folder_rendezvous(folder, "job"));
  settings.components = components;
  // The same tests with another UCX: FORELOAD_UCX_LIBRARY=folder peers_test.
  if (const char* const ucx = std::getenv("FORELOAD_UCX_LIBRARY")) settings.ucx = ucx;
  return settings;
}

class LoopbackJob {
 public:
  LoopbackJob() {
    std::string name = (std::filesystem::temp_directory_path() / "foreload-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~LoopbackJob() { std::filesystem::remove_all(folder_); }
  LoopbackJob(const LoopbackJob&) = delete;
  LoopbackJob& operator=(const LoopbackJob&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace foreload
