// SPDX-License-Identifier: Apache-2.0
#include "foreload/cache/blobs.h"

#include <algorithm>
#include <utility>

#include "foreload/base/hash.h"

namespace foreload {
namespace {

constexpr FormId kBlobForm = 0x626c6f62'666f726d;  // "blobform"

CopyKey key_of(std::string_view name) {
  return {Digester().add(name).digest(), kBlobForm};
}

bool is_blob(const CopyKey& key) {
  return key.form == kBlobForm;
}

}  // namespace

Blobs::Blobs(std::shared_ptr<Tier> tier) : tier_(std::move(tier)) {
  borrower_ = tier_->lend([this](std::span<const TierAnswer> answers) {
    const std::lock_guard lock(mutex_);
    for (const TierAnswer& answer : answers) answers_[answer.id] = answer.end;
    answered_.notify_all();
  });
  for (const FoundCopy& copy : tier_->found()) {
    if (!is_blob(copy.key)) continue;
    sizes_[copy.key] = copy.size;
    bytes_ += copy.size;
  }
  tier_->keep(borrower_, is_blob);
}

bool Blobs::any_on(const Tier& tier) {
  const std::vector<FoundCopy> found = tier.found();
  return std::ranges::any_of(found, is_blob, &FoundCopy::key);
}

Blobs::~Blobs() {
  tier_->give_back(borrower_);
}

template <class Request>
TierEnd Blobs::ask(Request request) {
  std::unique_lock lock(mutex_);
  const uint64_t id = request.id = next_++;
  lock.unlock();
  tier_->submit(borrower_, std::span(&request, 1), Traffic::checkpoint);
  lock.lock();
  answered_.wait(lock, [&] { return answers_.contains(id); });
  return answers_.extract(id).mapped();
}

bool Blobs::put(std::string_view name, std::span<const std::byte> bytes) {
  drop(name);
  const CopyKey key = key_of(name);
  if (ask(Put{0, key, bytes, checksum64(bytes), nullptr}) != TierEnd::done) return false;
  const std::lock_guard lock(mutex_);
  if (sizes_.emplace(key, bytes.size()).second) bytes_ += bytes.size();
  return true;
}

std::optional<std::vector<std::byte>> Blobs::get(std::string_view name) {
  const CopyKey key = key_of(name);
  std::vector<std::byte> bytes;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(key);
    if (found == sizes_.end()) return std::nullopt;
    bytes.resize(found->second);
  }
  if (ask(Get{0, key, bytes.size(), 0, bytes, nullptr}) != TierEnd::done) return std::nullopt;
  return bytes;
}

void Blobs::drop(std::string_view name) {
  const CopyKey key = key_of(name);
  {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(key);
    if (found == sizes_.end()) return;
    bytes_ -= found->second;
    sizes_.erase(found);
  }
  tier_->drop(key);
}

uint64_t Blobs::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

uint64_t Blobs::bytes_of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(key_of(name));
  return found == sizes_.end() ? 0 : found->second;
}

}  // namespace foreload
