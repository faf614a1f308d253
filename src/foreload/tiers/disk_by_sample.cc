// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_by_sample.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace foreload {
namespace {

class DiskBySample final : public DiskTier {
 public:
  DiskBySample(std::shared_ptr<Tier> tier, FormId form, Answered answered)
      : form_(form), answered_(std::move(answered)), tier_(std::move(tier)) {
    for (const FoundCopy& copy : tier_->found()) {
      if (copy.key.form != form_) continue;
      found_.push_back({copy.key.content.high, copy.key.content.low, copy.size});
      versions_[copy.key.content.high] = copy.key.content.low;
    }
    std::ranges::sort(found_, {}, &DiskEntry::sample);
    borrower_ = tier_->lend([this](std::span<const TierAnswer> answers) {
      for (const TierAnswer& answer : answers) answered_(answer.id, meaning(answer));
    });
  }

  const std::vector<DiskEntry>& found() const override { return found_; }
  void keep(const std::function<bool(uint64_t, uint64_t)>& wanted) override {
    tier_->keep(borrower_, [&](const CopyKey& key) {
      return key.form == form_ && wanted(key.content.high, key.content.low);
    });
  }
  void read(DiskRead read) override {
    if (read.checksum != nullptr) {
      const std::lock_guard lock(mutex_);
      checksums_[read.id] = read.checksum;
    }
    Get get{read.id, key_of(read.sample), read.size, 0, {read.into, read.size}, read.keeper};
    tier_->submit(borrower_, std::span(&get, 1), read.for_peer ? Traffic::peer : Traffic::training);
  }
  void write(DiskWrite write) override {
    const CopyKey key{{write.sample, write.version}, form_};
    const CopyKey before = key_of(write.sample);
    if (before != key) tier_->drop(before);
    {
      const std::lock_guard lock(mutex_);
      versions_[write.sample] = write.version;
      writes_[write.id] = key;
    }
    Put put{write.id, key, {write.from, write.size}, write.checksum, write.keeper};
    tier_->submit(borrower_, std::span(&put, 1), Traffic::fill);
  }
  void drop(uint64_t sample) override { tier_->drop(key_of(sample)); }
  bool holds(uint64_t sample) const override { return tier_->holds(key_of(sample)); }
  uint64_t payload() const override { return tier_->payload(); }
  std::optional<std::string> dead() const override { return tier_->dead(); }

 private:
  CopyKey key_of(uint64_t sample) const {
    const std::lock_guard lock(mutex_);
    const auto version = versions_.find(sample);
    return {{sample, version == versions_.end() ? 0 : version->second}, form_};
  }
  DiskAnswer meaning(const TierAnswer& answer) {
    std::unique_lock lock(mutex_);
    const auto write = writes_.extract(answer.id);
    const auto checksum = checksums_.extract(answer.id);
    lock.unlock();
    if (checksum && answer.end == TierEnd::done) *checksum.mapped() = answer.checksum;
    switch (answer.end) {
      case TierEnd::done:
        return DiskAnswer::done;
      case TierEnd::miss:
        return DiskAnswer::miss;
      case TierEnd::corrupt:
        return DiskAnswer::corrupt;
      case TierEnd::full:
        return write && tier_->holds(write.mapped()) ? DiskAnswer::done : DiskAnswer::full;
      default:
        return DiskAnswer::failed;
    }
  }

  const FormId form_;
  const Answered answered_;
  std::vector<DiskEntry> found_;
  mutable std::mutex mutex_;                           // guards the next three
  std::unordered_map<uint64_t, uint64_t> versions_;    // by sample
  std::unordered_map<uint64_t, CopyKey> writes_;       // by id
  std::unordered_map<uint64_t, uint64_t*> checksums_;  // of reads, by id
  Tier::Borrower borrower_ = 0;
  std::shared_ptr<Tier> tier_;
};

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(SampleDiskSettings settings, Answered answered,
                                                 DiskSharing* sharing) {
  Digester digester;
  digester.add(settings.fingerprint.high).add(settings.fingerprint.low).add(settings.form);
  FORELOAD_TRY(auto tier, open_disk(std::move(settings), sharing));
  if (!tier) return nullptr;
  return std::make_unique<DiskBySample>(std::move(tier), digester.digest().low,
                                        std::move(answered));
}

}  // namespace foreload
