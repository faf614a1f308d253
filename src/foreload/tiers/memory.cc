// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <condition_variable>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "foreload/tiers/traffic_queue.h"

namespace foreload {
namespace {

// Several, so that passing a job on costs little; few, so that all threads have something to do.
constexpr size_t kRequestsPerJob = 16;

}  // namespace

// What waits and who waits for it. Any thread.
class MemoryTier::Work {
 public:
  struct Lent;
  struct Job {
    std::shared_ptr<Lent> lent;
    std::vector<Get> gets;
    std::vector<Put> puts;
    std::vector<TierAnswer> answers;  // that are known before it begins: what was cancelled
    std::vector<CopyKey> dropped;     // while it ran

    size_t size() const { return gets.size() + puts.size() + answers.size(); }
  };

  struct Lent {
    Answered answered;
    Run run;
    MemoryCopies::Who bit = 0;
    unsigned running = 0;  // jobs
    TrafficQueue<Job> queue = {};
  };

  explicit Work(std::shared_ptr<MemoryCopies> copies) : copies_(std::move(copies)) {}

  Borrower lend(Answered answered, Run run) {
    const std::scoped_lock lock(mutex_);
    MemoryCopies::Who taken = 0;
    for (const auto& [number, lent] : borrowers_) taken |= lent->bit;
    assert(~taken != 0);
    const MemoryCopies::Who bit = MemoryCopies::Who{1} << std::countr_one(taken);
    borrowers_[++last_borrower_] =
        std::make_shared<Lent>(Lent{std::move(answered), std::move(run), bit});
    copies_->want_all(bit);
    return last_borrower_;
  }

  void give_back(Borrower borrower) {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Lent> lent = borrowers_.at(borrower);
    end(lock, *lent);
    copies_->want(lent->bit, {});
    borrowers_.erase(borrower);
  }
  // Of the tier.
  void end() {
    std::unique_lock lock(mutex_);
    while (!borrowers_.empty()) {
      const std::shared_ptr<Lent> lent = borrowers_.begin()->second;
      end(lock, *lent);
      std::erase_if(borrowers_, [&](const auto& other) { return other.second == lent; });
    }
  }

  MemoryCopies::Who bit_of(Borrower borrower) const {
    const std::scoped_lock lock(mutex_);
    return borrowers_.at(borrower)->bit;
  }

  // Whose it is.
  std::shared_ptr<Lent> push(Borrower borrower, Traffic traffic, uint64_t cost, Job job) {
    const std::scoped_lock lock(mutex_);
    const std::shared_ptr<Lent> lent = borrowers_.at(borrower);
    job.lent = lent;
    puts_waiting_ += job.puts.size();
    lent->queue.push(traffic, cost, std::move(job));
    return lent;
  }

  // Does the job of the borrower that is due. There may be none: it was cancelled.
  void do_one(Lent& lent) {
    std::unique_lock lock(mutex_);
    std::optional<Job> popped = lent.queue.pop();
    if (!popped) return;
    puts_waiting_ -= popped->puts.size();
    run(lock, std::move(*popped));
  }

  void cancel(Borrower borrower, uint64_t id) {
    const std::scoped_lock lock(mutex_);
    const auto found = borrowers_.find(borrower);
    if (found == borrowers_.end()) return;
    found->second->queue.cancel([&](Job& job) {
      const auto same = [&](const auto& request) { return request.id == id; };
      take_out(job, job.gets, same);
      puts_waiting_ -= take_out(job, job.puts, same);
      return false;  // it answers when it is due
    });
  }

  void drop(const CopyKey& key) {
    {
      const std::scoped_lock lock(mutex_);
      const auto same = [&](const Put& put) { return put.key == key; };
      for (const auto& [number, lent] : borrowers_) {
        if (puts_waiting_ == 0) break;
        lent->queue.cancel([&](Job& job) {
          puts_waiting_ -= take_out(job, job.puts, same);
          return false;
        });
      }
      for (Job& job : running_)
        if (std::any_of(job.puts.begin(), job.puts.end(), same)) job.dropped.push_back(key);
    }
    copies_->drop(key);
  }

  uint64_t count_of(TierEnd how, bool puts) const {
    return ends_[puts][static_cast<size_t>(how)].load(std::memory_order_relaxed);
  }

 private:
  // Makes requests of a job cancelled ones; how many.
  template <class Request, class Which>
  static size_t take_out(Job& job, std::vector<Request>& requests, Which which) {
    return std::erase_if(requests, [&](const Request& request) {
      if (!which(request)) return false;
      job.answers.push_back({request.id, TierEnd::cancelled, 0});
      return true;
    });
  }

  // Cancels what waits until nothing does and nothing runs. An answer may ask for more, which is
  // cancelled too.
  void end(std::unique_lock<std::mutex>& lock, Lent& lent) {
    while (true) {
      std::vector<Job> jobs;
      lent.queue.cancel([&](Job& job) {
        puts_waiting_ -= job.puts.size();
        jobs.push_back(std::move(job));
        return true;
      });
      const auto all = [](const auto&) { return true; };
      for (Job& job : jobs) {
        take_out(job, job.gets, all);
        take_out(job, job.puts, all);
        run(lock, std::move(job));
      }
      if (!jobs.empty()) continue;
      if (lent.running == 0) return;
      left_.wait(lock);
    }
  }

  // REQUIRES: the lock is held; it is again afterwards.
  void run(std::unique_lock<std::mutex>& lock, Job taken) {
    running_.push_front(std::move(taken));
    const auto job = running_.begin();
    ++job->lent->running;
    lock.unlock();
    std::vector<TierAnswer> answers = std::move(job->answers);
    answers.reserve(answers.size() + job->size());
    copies_->expect(job->gets);
    for (const Get& get : job->gets) answers.push_back(answer_to(get));
    for (const Put& put : job->puts) answers.push_back(answer_to(put, job->lent->bit));
    if (!job->puts.empty()) forget_dropped(*job);
    job->gets.clear();  // with their keepers
    job->lent->answered(answers);
    lock.lock();
    --job->lent->running;
    running_.erase(job);
    left_.notify_all();
  }

  void forget_dropped(Job& job) {
    std::vector<CopyKey> dropped;
    {
      const std::scoped_lock lock(mutex_);
      job.puts.clear();
      dropped.swap(job.dropped);
    }
    for (const CopyKey& key : dropped) copies_->drop(key);
  }

  TierAnswer answer_to(const Get& get) {
    uint64_t checksum = 0;
    const Copied copied = copies_->get(get.key, get.size, get.offset, get.into, checksum);
    const TierEnd how = copied == Copied::hit    ? TierEnd::done
                        : copied == Copied::miss ? TierEnd::miss
                                                 : TierEnd::corrupt;
    count(how, false);
    return {get.id, how, how == TierEnd::done ? checksum : 0};
  }
  TierAnswer answer_to(const Put& put, MemoryCopies::Who who) {
    const bool done = copies_->put(put.key, put.from, put.checksum, who);
    const TierEnd how = done ? TierEnd::done : TierEnd::full;
    count(how, true);
    return {put.id, how, 0};
  }
  void count(TierEnd how, bool put) {
    ends_[put][static_cast<size_t>(how)].fetch_add(1, std::memory_order_relaxed);
  }

  const std::shared_ptr<MemoryCopies> copies_;
  std::array<std::array<std::atomic<uint64_t>, 6>, 2> ends_{};  // of gets and puts, by TierEnd

  mutable std::mutex mutex_;  // guards the rest
  std::map<Borrower, std::shared_ptr<Lent>> borrowers_;
  Borrower last_borrower_ = 0;
  size_t puts_waiting_ = 0;
  std::list<Job> running_;
  std::condition_variable left_;  // a job has ended
};

MemoryTier::MemoryTier(std::shared_ptr<MemoryCopies> copies, MemorySettings settings)
    : copies_(std::move(copies)),
      settings_(std::move(settings)),
      work_(std::make_shared<Work>(copies_)) {}

MemoryTier::~MemoryTier() {
  work_->end();
}

Tier::Borrower MemoryTier::lend(Answered answered, Run run) {
  return work_->lend(std::move(answered), run ? std::move(run) : settings_.run);
}

void MemoryTier::give_back(Borrower borrower) {
  work_->give_back(borrower);
}

void MemoryTier::keep(Borrower borrower, const Wanted& wanted) {
  copies_->want(work_->bit_of(borrower), wanted);
}

void MemoryTier::want(Borrower borrower, const CopyKey& key) {
  copies_->want_also(work_->bit_of(borrower), key);
}

template <class Request>
void MemoryTier::submit_in_jobs(Borrower borrower, std::span<Request> requests, Traffic traffic) {
  for (size_t first = 0; first < requests.size(); first += kRequestsPerJob) {
    const auto some = requests.subspan(first, std::min(kRequestsPerJob, requests.size() - first));
    Work::Job job;
    uint64_t cost = 0;
    if constexpr (std::is_same_v<Request, Get>) {
      for (const Get& get : some) cost += get.into.size();
      job.gets.assign(std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    } else {
      for (const Put& put : some) cost += put.from.size();
      job.puts.assign(std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
    const auto lent = work_->push(borrower, traffic, cost, std::move(job));
    if (lent->run)
      lent->run(traffic, [work = work_, lent] { work->do_one(*lent); });
    else
      work_->do_one(*lent);
  }
}

void MemoryTier::submit(Borrower borrower, std::span<Get> gets, Traffic traffic) {
  submit_in_jobs(borrower, gets, traffic);
}

void MemoryTier::submit(Borrower borrower, std::span<Put> puts, Traffic traffic) {
  submit_in_jobs(borrower, puts, traffic);
}

void MemoryTier::cancel(Borrower borrower, uint64_t id) {
  work_->cancel(borrower, id);
}

void MemoryTier::drop(const CopyKey& key) {
  work_->drop(key);
}

void MemoryTier::visit(const VisitCounter& visit) const {
  visit("hits", work_->count_of(TierEnd::done, false));
  visit("misses", work_->count_of(TierEnd::miss, false));
  visit("corrupt", work_->count_of(TierEnd::corrupt, false));
  visit("puts", work_->count_of(TierEnd::done, true));
  visit("refused", work_->count_of(TierEnd::full, true));
  visit("reclaimed", copies_->reclaimed());
  visit("payload", copies_->payload());
  visit("overhead", copies_->overhead());
}

Result<std::shared_ptr<MemoryTier>> open_memory(MemorySettings settings) {
  FORELOAD_TRY(auto copies, MemoryCopies::create(settings.copies));
  return std::make_shared<MemoryTier>(std::move(copies), std::move(settings));
}

}  // namespace foreload
