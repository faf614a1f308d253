// SPDX-License-Identifier: Apache-2.0
//
// Folders in which files were opened lately. A file that is opened relative to its folder's
// descriptor costs a lookup of its own name; by its path it costs one more for each folder above
// it, and a file system that keeps no names in the kernel asks its server for each of them. The
// folders used last stay open, a bounded number of them and none for long: a name may come to mean
// another folder. Private to stores; any thread may use it. Closing one never waits, since none is
// open for more than finding names (O_PATH).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "foreload/base/descriptor.h"
#include "foreload/stores/source.h"

namespace foreload {

class OpenFolders {
 public:
  // Whoever opens a file by it holds on to it meanwhile.
  using Folder = std::shared_ptr<const Descriptor>;

  // After so long a folder is looked up again.
  static constexpr std::chrono::seconds kLongest{10};

  // 0: files are opened by their paths.
  explicit OpenFolders(size_t most) : most_(most) {}

  bool used() const { return most_ > 0 && !given_up_; }
  // Null where it is not open, or has been for too long.
  Folder find(std::string_view name, SteadyTime now);
  // Keeps it, unless another thread was first; returns what to use.
  Folder keep(std::string_view name, Descriptor folder, SteadyTime now);
  // It led nowhere: another folder, or none, may have its name by now.
  void forget(std::string_view name);
  // There are too few descriptors for this: files are opened by their paths from now on. Whether
  // there were any folders.
  bool give_up();

 private:
  struct Kept {
    std::string name;
    Folder folder;
    SteadyTime since;
  };
  using Place = std::list<Kept>::iterator;

  const size_t most_;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  std::list<Kept> kept_;                                // the one used last is last
  std::unordered_map<std::string_view, Place> places_;  // by the names in kept_
};

}  // namespace foreload
