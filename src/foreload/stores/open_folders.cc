// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/open_folders.h"

#include <utility>

namespace foreload {

OpenFolders::Folder OpenFolders::find(std::string_view name, SteadyTime now) {
  const std::scoped_lock lock(mutex_);
  const auto found = places_.find(name);
  if (found == places_.end()) return nullptr;
  const Place place = found->second;
  if (now - place->since >= kLongest) {
    places_.erase(found);
    kept_.erase(place);
    return nullptr;
  }
  kept_.splice(kept_.end(), kept_, place);
  return place->folder;
}

OpenFolders::Folder OpenFolders::keep(std::string_view name, Descriptor folder, SteadyTime now) {
  auto opened = std::make_shared<const Descriptor>(std::move(folder));
  const std::scoped_lock lock(mutex_);
  if (const auto found = places_.find(name); found != places_.end()) return found->second->folder;
  if (given_up_) return opened;
  kept_.push_back({std::string(name), opened, now});
  places_.emplace(kept_.back().name, std::prev(kept_.end()));
  if (kept_.size() > most_) {
    places_.erase(kept_.front().name);
    kept_.pop_front();
  }
  return opened;
}

void OpenFolders::forget(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const auto found = places_.find(name);
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  kept_.erase(place);
}

bool OpenFolders::give_up() {
  const std::scoped_lock lock(mutex_);
  given_up_ = true;
  places_.clear();
  return std::exchange(kept_, {}).size() > 0;
}

}  // namespace foreload
