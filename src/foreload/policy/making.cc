// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/making.h"

namespace foreload {

uint64_t Making::ahead_bytes_of(const Flight& read) const {
  return read.has_place() ? 0 : desk_.memory_of(read.sample);
}

void Making::begin(uint64_t request, const Flight& read) {
  reads_.emplace(request, read);
  ahead_bytes_ += ahead_bytes_of(read);
  desk_.act(action::Make{request, read.sample, read.place});
}

std::optional<Flight> Making::end(uint64_t request) {
  const auto found = reads_.find(request);
  if (found == reads_.end()) return std::nullopt;
  const Flight read = found->second;
  reads_.erase(found);
  ahead_bytes_ -= ahead_bytes_of(read);
  return read;
}

void Making::cancel_all() {
  for (const auto& [request, read] : reads_) desk_.act(action::Cancel{request});
  reads_.clear();
  ahead_bytes_ = 0;
}

}  // namespace foreload
