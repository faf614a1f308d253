// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/neighbours.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

std::string host_name(const std::string& given) {
  if (!given.empty()) return given;
  const char* set = std::getenv("FORELOAD_HOST");
  return set == nullptr ? "" : set;
}

std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point deadline) {
  const auto time = deadline - std::chrono::steady_clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(time), std::chrono::milliseconds(0));
}

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

Result<Neighbours> find_neighbours(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                                   const std::string& host, bool has_memory) {
  const uint64_t own = host_number(host_name(host));
  const Json told{{"host", own}, {"memory", has_memory}, {"job", rank == 0 ? random_name() : ""}};
  FORELOAD_TRY(const auto texts,
               exchange(*join.rendezvous, "host", rank, ranks, told.dump(), join.timeout));
  Neighbours neighbours;
  for (uint32_t other = 0; other < ranks; ++other) {
    const Json json = Json::parse(texts[other], nullptr, false);
    if (!json.is_object() || !json.contains("host") || !json["host"].is_number_unsigned() ||
        !json.contains("memory") || !json["memory"].is_boolean() || !json.contains("job") ||
        !json["job"].is_string())
      return fail(ErrorKind::corrupt,
                  fmt::format("what rank {} said about its host is malformed: start all ranks "
                              "with the same version of foreload",
                              other));
    if (other == 0) neighbours.job = json["job"].get<std::string>();
    if (other == rank || json["host"].get<uint64_t>() != own) continue;
    neighbours.ranks.push_back(other);
    if (json["memory"].get<bool>()) neighbours.sharing.push_back(other);
  }
  return neighbours;
}

SharedTiers::SharedTiers(const Neighbours& neighbours, uint32_t rank, int memory,
                         SharedMemory::Gone gone) {
  auto shared = SharedMemory::open(neighbours.job, rank, std::move(gone));
  if (!shared) {
    warnings_.push_back(shared.error().message);
    return;
  }
  shared_ = std::move(*shared);
  if (memory < 0) return;  // nothing to give, but something to take
  if (auto published = shared_->publish(memory); !published)
    warnings_.push_back(published.error().message);
}

void SharedTiers::watch(const Neighbours& neighbours, std::chrono::milliseconds timeout) {
  if (!shared_) return;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // Who cannot be watched is missed when it owes something, like any other peer.
  for (const uint32_t rank : neighbours.ranks) (void)shared_->watch(rank, left_until(deadline));
}

std::vector<std::shared_ptr<const MemoryView>> SharedTiers::fetch(
    const Neighbours& neighbours, uint32_t ranks, std::chrono::milliseconds timeout) {
  std::vector<std::shared_ptr<const MemoryView>> views(ranks);
  if (!shared_) return views;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (const uint32_t rank : neighbours.sharing) {
    auto memory = shared_->fetch(rank, left_until(deadline));
    if (!memory) {
      warnings_.push_back(memory.error().message);
      continue;
    }
    auto view = MemoryView::map(memory->get());
    if (view)
      views[rank] = std::move(*view);
    else
      warnings_.push_back(view.error().message);
  }
  return views;
}

}  // namespace foreload
