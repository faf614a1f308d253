// SPDX-License-Identifier: Apache-2.0
//
// Where everything that happens reaches the engine's loop: answers of sources and tiers, finished
// work of hands, wishes of the consumer. It exists before the engine and outlives it, because tiers
// are opened before the plan is made and threads may still answer while the engine ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "foreload/policy/policy.h"
#include "foreload/sources/source.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/memory.h"

namespace foreload {

namespace message {
struct DiskAnswered {
  uint32_t disk;  // which of the engine's disks
  uint64_t id;
  DiskAnswer answer;
};
struct MemoryRead {
  uint64_t request;
  Copied copied;
};
struct Stop {};
}  // namespace message

using Message =
    std::variant<SourceAnswer, message::DiskAnswered, message::MemoryRead, Event, message::Stop>;

class Inbox {
 public:
  void post(Message message);
  void post(std::vector<Message> messages);
  // Waits for messages until `until`, then moves all there are to `messages` (emptied first).
  void take(std::vector<Message>& messages, std::optional<SteadyTime> until);

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Message> messages_;
};

}  // namespace foreload
