// SPDX-License-Identifier: Apache-2.0
//
// Where ranks find each other at the start: a small store of keys and values that all of them can
// reach. In a folder they share, or at a TCP port that rank 0 serves; Python gives torch's store in
// the same shape. Used while joining only, never on the data path.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "foreload/base/result.h"

namespace foreload {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // Values are at most 64 KiB. A key is put once. Fails with `unreadable`.
  virtual Result<void> put(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there. Fails with `cancelled` when the time is over, `unreadable` if the
  // store cannot be reached.
  virtual Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

// Files below `folder`/`job`, which rank 0 empties of an earlier attempt by using a new `job` name.
Result<std::unique_ptr<Rendezvous>> folder_rendezvous(const std::filesystem::path& folder,
                                                      const std::string& job);
// Rank 0 listens on host:port, all connect to it. The store lives as long as rank 0's object.
Result<std::unique_ptr<Rendezvous>> tcp_rendezvous(const std::string& host, uint16_t port,
                                                   uint32_t rank,
                                                   std::chrono::milliseconds timeout);

}  // namespace foreload
