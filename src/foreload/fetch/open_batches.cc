// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/open_batches.h"

#include <cstring>
#include <utility>

namespace foreload {

KeptBytes OpenBatch::at(uint32_t index) const {
  for (const auto& memory : spilled)
    if (memory->range(0).data() == ranges[index].data()) return {ranges[index], memory};
  return {ranges[index], slot};
}

void OpenBatch::spill(uint32_t index, std::shared_ptr<Slot> memory) {
  ranges[index] = memory->range(0);
  spilled.push_back(std::move(memory));
}

Result<void> OpenBatches::open(action::OpenBatch& a) {
  std::vector<uint64_t> sizes;
  sizes.reserve(a.samples.size());
  for (const uint64_t sample : a.samples) sizes.push_back(parts_.plan->sizes()[sample]);
  OpenBatch& batch = open_[a.batch];
  batch.epoch = a.epoch;
  batch.first = a.first;
  batch.sharding = a.sharding;
  batch.last_of_epoch = a.last_of_epoch;
  batch.as_bytes = a.as_bytes || !parts_.transform;
  batch.samples = std::move(a.samples);
  batch.from.assign(sizes.size(), From::source);
  batch.tainted.assign(sizes.size(), false);
  batch.ranges.resize(sizes.size());
  auto slot = parts_.staging->take(sizes);
  if (!slot) return tl::unexpected(slot.error());
  batch.slot = std::move(*slot);
  for (size_t i = 0; i < sizes.size(); ++i) batch.ranges[i] = batch.slot->range(i);
  if (batch.as_bytes) return {};
  auto decoded = DecodedBatch::open(parts_.transform, parts_.form, sizes.size(), *parts_.decoded);
  if (!decoded) return tl::unexpected(decoded.error());
  batch.decoded = std::move(*decoded);
  return {};
}

OpenBatch* OpenBatches::find(uint64_t batch) {
  const auto found = open_.find(batch);
  return found == open_.end() ? nullptr : &found->second;
}

std::optional<KeptBytes> OpenBatches::room(BatchPlace place, uint64_t size) {
  OpenBatch& batch = open_.at(place.batch);
  if (!batch.slot || (batch.tainted[place.index] && !renew(batch, place.index, size)))
    return std::nullopt;
  return batch.at(place.index);
}

bool OpenBatches::renew(OpenBatch& batch, uint32_t index, uint64_t size) {
  auto slot = parts_.staging->take(std::span(&size, 1));
  if (!slot) return false;
  batch.spill(index, std::move(*slot));
  batch.tainted[index] = false;
  return true;
}

void OpenBatches::taint(BatchPlace place) {
  if (OpenBatch* batch = find(place.batch)) batch->tainted[place.index] = true;
}

bool OpenBatches::copy(BatchPlace from, BatchPlace to) {
  const std::span<const std::byte> bytes = open_.at(from.batch).ranges[from.index];
  OpenBatch& target = open_.at(to.batch);
  if (!target.slot) return true;  // it has failed
  if ((target.ranges[to.index].size() != bytes.size() || target.tainted[to.index]) &&
      !renew(target, to.index, bytes.size()))
    return false;
  if (!bytes.empty()) std::memcpy(target.ranges[to.index].data(), bytes.data(), bytes.size());
  return true;
}

OpenBatch OpenBatches::close(uint64_t batch) {
  auto found = open_.extract(batch);
  return found ? std::move(found.mapped()) : OpenBatch{};
}

Batch OpenBatches::finish(OpenBatch open) const {
  Batch batch;
  batch.epoch = open.epoch;
  batch.first = open.first;
  batch.last_of_epoch = open.last_of_epoch;
  batch.samples = std::move(open.samples);
  batch.skipped = std::move(open.skipped);
  for (size_t i = 0; i < open.ranges.size(); ++i) {
    if (open.errors.contains(static_cast<uint32_t>(i))) continue;
    batch.from_bytes[static_cast<size_t>(open.from[i])] += open.ranges[i].size();
    ++batch.from_samples[static_cast<size_t>(open.from[i])];
  }
  if (open.as_bytes) {
    batch.bytes.assign(open.ranges.begin(), open.ranges.end());
    for (const auto& [place, error] : open.errors) batch.bytes[place] = {};
  }
  if (open.decoded) open.decoded->give_to(batch);
  for (size_t p = 0; p < batch.parts.size(); ++p) {
    if (parts_.transform.parts()[p].transform) continue;
    for (uint32_t i = 0; i < open.ranges.size(); ++i) {
      const SampleBytes sample{*parts_.index, batch.samples[i], open.ranges[i]};
      const auto none = std::span<const std::byte>();
      batch.parts[p].bytes.push_back(
          open.errors.contains(i) ? none : sample.part(batch.parts[p].name).value_or(none));
    }
  }
  if (open.as_bytes || parts_.transform.gives_bytes()) {
    batch.memory.push_back(std::move(open.slot));
    for (auto& spilled : open.spilled) batch.memory.push_back(std::move(spilled));
  }
  return batch;
}

}  // namespace foreload
