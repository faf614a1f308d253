// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_answers.h"

#include <algorithm>

namespace foreload::disk_cache {

Tier::Borrower DiskAnswers::lend(Tier::Answered answered, uint64_t bit) {
  const std::lock_guard lock(mutex_);
  borrowers_.emplace(++last_borrower_, Lent{std::move(answered), bit});
  return last_borrower_;
}

uint64_t DiskAnswers::bit_of(Tier::Borrower borrower) const {
  const std::lock_guard lock(mutex_);
  const auto lent = borrowers_.find(borrower);
  return lent == borrowers_.end() ? 0 : lent->second.bit;
}

void DiskAnswers::give(Lent& lent, std::vector<TierAnswer>& answers, Lock& lock) {
  if (answers.empty()) return;
  lock.unlock();
  lent.answered(answers);
  lock.lock();
  lent.waiting -= answers.size();
  if (lent.waiting == 0) changed_.notify_all();
  answers.clear();
}

void DiskAnswers::answer_all(const Lent* only, bool begun, Lock& lock) {
  std::map<Lent*, std::vector<TierAnswer>> answers;
  std::erase_if(waiting_, [&](const auto& item) {
    const Waiting& waiting = item.second;
    if ((only != nullptr && waiting.lent != only) || (waiting.begun && !begun)) return false;
    answers[waiting.lent].push_back(
        {waiting.id, waiting.begun ? TierEnd::failed : TierEnd::cancelled});
    return true;
  });
  for (auto& [lent, its] : answers) give(*lent, its, lock);
}

std::optional<uint64_t> DiskAnswers::give_back(Tier::Borrower borrower,
                                               std::chrono::steady_clock::time_point deadline) {
  Lock lock(mutex_);
  const auto found = borrowers_.find(borrower);
  if (found == borrowers_.end()) return std::nullopt;
  Lent& lent = found->second;
  lent.leaving = true;
  answer_all(&lent, false, lock);
  changed_.wait_until(lock, deadline, [&] { return lent.waiting == 0; });
  answer_all(&lent, true, lock);
  changed_.wait(lock, [&] { return lent.waiting == 0; });
  return borrowers_.extract(found).mapped().bit;
}

bool DiskAnswers::begin(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end() || found->second.cancelled) return false;
  found->second.begun = true;
  return true;
}

std::vector<uint64_t> DiskAnswers::cancel(Tier::Borrower borrower, uint64_t id) {
  std::vector<uint64_t> tickets;
  const std::lock_guard lock(mutex_);
  const auto lent = borrowers_.find(borrower);
  if (lent == borrowers_.end()) return tickets;
  for (auto& [ticket, waiting] : waiting_) {
    if (waiting.lent != &lent->second || waiting.id != id || waiting.begun) continue;
    waiting.cancelled = true;
    tickets.push_back(ticket);
  }
  return tickets;
}

void DiskAnswers::answer(std::span<const Ended> ended) {
  if (ended.empty()) return;
  Lock lock(mutex_);
  Lent* lent = nullptr;
  std::vector<TierAnswer> answers;  // to `lent`
  for (const Ended& end : ended) {
    const auto found = waiting_.find(end.ticket);
    if (found == waiting_.end()) continue;
    const Waiting waiting = found->second;
    waiting_.erase(found);
    if (waiting.lent != lent && lent != nullptr) give(*lent, answers, lock);
    lent = waiting.lent;
    answers.push_back({waiting.id, end.end, end.checksum});
  }
  if (lent != nullptr) give(*lent, answers, lock);
}

void DiskAnswers::close() {
  Lock lock(mutex_);
  for (auto& [borrower, lent] : borrowers_) lent.leaving = true;
  answer_all(nullptr, true, lock);
  changed_.wait(lock, [this] {
    return std::all_of(borrowers_.begin(), borrowers_.end(),
                       [](const auto& item) { return item.second.waiting == 0; });
  });
}

}  // namespace foreload::disk_cache
