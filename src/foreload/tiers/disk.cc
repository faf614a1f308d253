// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/tiers/disk_core.h"
#include "foreload/tiers/disk_leftovers.h"
#include "foreload/tiers/disk_reads.h"
#include "foreload/tiers/disk_writer.h"

namespace foreload {
namespace {

using namespace disk_cache;

constexpr uint64_t kLeastBudget = uint64_t{64} << 10;
constexpr uint64_t kLeastSegment = uint64_t{4} << 20;
constexpr uint64_t kMostSegment = uint64_t{256} << 20;

uint64_t segment_bytes_for(uint64_t budget) {
  return std::clamp(budget / 16, kLeastSegment, kMostSegment);
}
constexpr std::chrono::milliseconds kPatience{900};  // of the destructor

Result<void> check(const DiskSettings& settings) {
  if (settings.members == 0 || settings.member >= settings.members) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot open disk cache {}: member {} of {} does not exist; members "
                            "count from 0",
                            settings.folder.native(), settings.member, settings.members));
  }
  if (settings.folder.empty()) {
    return fail(ErrorKind::invalid, "cannot open a disk cache without a folder; name one");
  }
  if (settings.budget < kLeastBudget) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot open disk cache {}: a budget of {} is too small for samples; "
                            "give it at least {}, or leave it out",
                            settings.folder.native(), format_bytes(settings.budget),
                            format_bytes(kLeastBudget)));
  }
  return {};
}

Result<void> check_free_space(const DiskCore& core) {
  const DiskSettings& settings = core.settings;
  std::error_code error;
  const auto space = std::filesystem::space(settings.folder, error);
  if (error) return {};  // some file systems do not say; the first write will
  const uint64_t free = static_cast<uint64_t>(space.available);
  if (settings.budget <= free + core.used) return {};
  return fail(ErrorKind::invalid,
              fmt::format("cannot use a disk budget of {} in {}: {} are free there and {} are held "
                          "by the cache; lower the disk budget, or free some space",
                          format_bytes(settings.budget), settings.folder.native(),
                          format_bytes(free), format_bytes(core.used)));
}

class SegmentedDiskTier final : public Tier {
 public:
  explicit SegmentedDiskTier(std::shared_ptr<DiskCore> core) : core_(std::move(core)) {}

  Result<void> start(const Leftovers& leftovers) {
    try {
      writer_.emplace("foreload-disk",
                      [writer = std::make_shared<DiskWriter>(core_, leftovers)] { writer->run(); });
    } catch (const std::system_error&) {
      return fail(ErrorKind::unreadable,
                  "cannot start a thread for the disk cache; raise the "
                  "limit of threads (ulimit -u)");
    }
    const auto reads = std::make_shared<DiskReads>(core_);
    if (core_->settings.io_uring) {
      if (auto ring = start_ring(reads)) readers_.push_back(std::move(*ring));
    }
    if (readers_.empty()) readers_ = start_pool(reads);
    if (readers_.empty()) {
      return fail(ErrorKind::unreadable,
                  "cannot start threads for the disk cache; raise the limit "
                  "of threads (ulimit -u)");
    }
    return {};
  }

  ~SegmentedDiskTier() override {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    core_->gets.stop();
    core_->puts.stop();
    for (PatientThread& reader : readers_) reader.end_by(deadline);
    if (writer_) writer_->end_by(deadline);
    core_->answers.close();
  }

  std::string_view kind() const override { return "disk"; }
  uint64_t capacity(uint64_t mean_size) const override {
    return disk_payload(core_->settings.budget, mean_size);
  }

  Borrower lend(Answered answered, Run) override {
    return core_->answers.lend(std::move(answered), core_->index.lend());
  }
  void give_back(Borrower borrower) override {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    if (const auto bit = core_->answers.give_back(borrower, deadline)) core_->index.give_back(*bit);
  }

  std::vector<FoundCopy> found() const override { return core_->index.copies(); }
  void keep(Borrower borrower, const Wanted& wanted) override {
    core_->index.keep(core_->answers.bit_of(borrower), wanted);
  }
  void want(Borrower borrower, const CopyKey& key) override {
    core_->index.want(core_->answers.bit_of(borrower), key);
  }
  void submit(Borrower borrower, std::span<Get> gets, Traffic traffic) override {
    const uint64_t ticket = core_->answers.expect(borrower, gets);
    if (ticket > 0) core_->gets.push(gets, ticket, traffic);
  }
  void submit(Borrower borrower, std::span<Put> puts, Traffic traffic) override {
    const uint64_t ticket = core_->answers.expect(borrower, puts);
    if (ticket > 0) core_->puts.push(puts, ticket, core_->answers.bit_of(borrower), traffic);
  }
  void cancel(Borrower borrower, uint64_t id) override {
    for (const uint64_t ticket : core_->answers.cancel(borrower, id)) {
      core_->gets.hasten(ticket);
      core_->puts.hasten(ticket);
    }
  }
  void drop(const CopyKey& key) override {
    if (!core_->index.pinned(key)) core_->puts.drop(key);
    core_->index.drop(key);
  }
  std::shared_ptr<const void> pin(const CopyKey& key) override {
    if (!core_->index.pin(key)) return nullptr;
    // A pin that outlives the tier must not keep its folder locked.
    return {core_.get(), [core = std::weak_ptr(core_), key](const void*) {
              if (const auto still = core.lock()) still->index.unpin(key);
            }};
  }
  bool holds(const CopyKey& key) const override { return core_->index.holds(key); }

  uint64_t payload() const override { return core_->index.payload(); }
  void visit(const VisitCounter& visit) const override {
    visit("disk_bytes", core_->used);
    visit("read_bytes", core_->read_bytes);
    visit("written_bytes", core_->written_bytes);
    visit("moved_bytes", core_->moved_bytes);
    visit("reclaimed_bytes", core_->reclaimed_bytes);
    visit("corrupt_copies", core_->corrupt);
    visit("refused_puts", core_->refused);
  }
  std::optional<std::string> dead() const override { return core_->health.why(); }

 private:
  const std::shared_ptr<DiskCore> core_;
  std::optional<PatientThread> writer_;
  std::vector<PatientThread> readers_;
};

}  // namespace

uint64_t disk_payload(uint64_t budget, uint64_t mean_size) {
  // A segment rounds its own length and its sidecar's up, and has a header in each.
  const uint64_t segments = budget / segment_bytes_for(budget) + 2;
  const uint64_t taken = segments * 3 * kBlockBytes;
  if (budget <= taken) return 0;
  const uint64_t per_record = record_bytes(mean_size) + kRecordAlignment + sizeof(RecordEntry);
  return static_cast<uint64_t>(static_cast<double>(budget - taken) *
                               static_cast<double>(mean_size) / static_cast<double>(per_record));
}

uint64_t disk_budget_for(uint64_t payload, uint64_t mean_size) {
  uint64_t least = kLeastBudget;
  uint64_t most = least;
  while (disk_payload(most, mean_size) < payload && most < UINT64_MAX / 2) most *= 2;
  while (most - least > kBlockBytes) {
    const uint64_t middle = least + (most - least) / 2;
    (disk_payload(middle, mean_size) < payload ? least : most) = middle;
  }
  return most;
}

Result<std::shared_ptr<Tier>> open_disk(DiskSettings settings, DiskSharing* sharing) {
  FORELOAD_CHECK(check(settings));
  FORELOAD_TRY(TakenSlots taken, take_slots(settings.folder, settings.member, settings.members,
                                            std::min(settings.reserve, settings.budget)));
  for (const DiskNeighbour& other : taken.others)
    settings.budget -= std::min(settings.budget, other.bytes());
  if (sharing != nullptr) *sharing = {taken.others, settings.budget, 0};
  if (settings.budget < kLeastBudget) return nullptr;
  if (settings.segment_bytes == 0) settings.segment_bytes = segment_bytes_for(settings.budget);
  // A small budget still needs several segments, or nothing could be won back piece by piece.
  settings.segment_bytes = std::min(settings.segment_bytes, settings.budget / 4);
  auto core = std::make_shared<DiskCore>(std::move(settings), std::move(taken.own));
  FORELOAD_TRY(const Leftovers leftovers, find_leftovers(*core));
  if (sharing != nullptr) sharing->outdated = leftovers.outdated;
  FORELOAD_CHECK(check_free_space(*core));
  auto tier = std::make_shared<SegmentedDiskTier>(core);
  FORELOAD_CHECK(tier->start(leftovers));
  return tier;
}

}  // namespace foreload
