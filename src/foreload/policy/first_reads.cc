// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/first_reads.h"

#include <algorithm>
#include <array>

namespace foreload {
namespace {

// The first epoch in which somebody reads the sample, as a row of the table.
uint32_t first_row(const ReaderTable& table, uint64_t sample) {
  uint32_t row = 0;
  while (row < table.epochs() && table.reader(row, sample) >= table.ranks()) ++row;
  return row;
}

template <class Visit>
void visit(const EpochOrder& order, uint64_t first, uint64_t end, Visit each) {
  std::array<uint64_t, 1024> ids{};
  for (; first < end; first += ids.size()) {
    const std::span<uint64_t> some(ids.data(), std::min<uint64_t>(ids.size(), end - first));
    order.read(first, some);
    for (const uint64_t id : some) each(id);
  }
}

}  // namespace

FirstReads::FirstReads(Desk& desk, Copies& copies, const Lives& lives)
    : desk_(desk),
      copies_(copies),
      lives_(lives),
      unsure_(!desk.plan->order().shared()),
      unseen_(desk.samples()) {
  if (!desk.with_peers) return;
  for (const Held& copy : desk.plan->job().held) {
    if (!copies_.is(copy.sample, Past::seen)) --unseen_;
    copies_.mark(copy.sample, Past::seen);
    if (copy.rank == desk.settings.rank) copies_.mark(copy.sample, Past::came);
  }
}

uint32_t FirstReads::first_reader(uint64_t sample) const {
  const ReaderTable* table = desk_.plan->table();
  if (table == nullptr || copies_.is(sample, Past::cut_off)) return kNoOwner;
  const uint32_t row = first_row(*table, sample);
  return row < table->epochs() ? table->reader(row, sample) : kNoOwner;
}

void FirstReads::note_read(const EpochOrder& order, uint64_t first, uint64_t end) {
  if (unseen_ == 0) return;
  visit(order, first, end, [this](uint64_t sample) {
    if (!copies_.is(sample, Past::seen)) --unseen_;
    copies_.mark(sample, Past::seen);
  });
}

void FirstReads::note_left_out(const EpochOrder& order, uint64_t first, uint64_t end) {
  visit(order, first, end, [this](uint64_t sample) { copies_.mark(sample, Past::cut_off); });
}

bool FirstReads::will_come(uint64_t sample) const {
  if (unsure_ || copies_.is(sample, Past::came) || !desk_.is_owner(sample)) return false;
  const uint32_t from = first_reader(sample);
  // In the last epoch nothing is pushed.
  if (from == kNoOwner || desk_.past_the_end(desk_.plan->job().first_epoch +
                                             first_row(*desk_.plan->table(), sample) + 1))
    return false;
  return from != desk_.settings.rank && lives_.up(from) && !lives_.late(from) &&
         copies_.alive(desk_.owner(sample).tier);
}

bool FirstReads::expect(uint64_t sample) {
  if (!will_come(sample)) return false;
  copies_.set(sample, OnItsWay::expected);
  expected_[sample] = {first_reader(sample), desk_.now};
  return true;
}

void FirstReads::came(uint64_t sample) {
  copies_.mark(sample, Past::came);
  expected_.erase(sample);
}

void FirstReads::give_up(uint64_t sample) {
  came(sample);  // or as good as
  copies_.set(sample, OnItsWay::no);
}

void FirstReads::forget() {
  unsure_ = true;
  for (const auto& [sample, expected] : expected_) copies_.set(sample, OnItsWay::no);
  expected_.clear();
}

}  // namespace foreload
