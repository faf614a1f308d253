// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a job on the loopback interface, which meet in a folder.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "foreload/peers/transport.h"

#include "../temporary_folder.h"

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

}  // namespace foreload
