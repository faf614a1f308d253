// SPDX-License-Identifier: Apache-2.0
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <unordered_map>

#include "foreload/tiers/disk_reads.h"

namespace foreload::disk_cache {
namespace {

constexpr unsigned kDepth = 64;
// So many answers are given together, at most.
constexpr size_t kMostAnswers = 8;
// Memory of reads in flight together; a single larger read goes alone.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;

// One thread that starts reads, waits for any of them, and finishes them. A push to the queue wakes
// it through an event descriptor, which is one more read in the ring.
class Ring {
 public:
  explicit Ring(std::shared_ptr<DiskReads> reads) : reads_(std::move(reads)) {
    const unsigned at_once = reads_->core().settings.at_once;
    if (at_once > 0) depth_ = std::min(kDepth, at_once);
  }
  ~Ring() {
    if (made_) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool make() {
    wake_ = std::make_shared<Descriptor>(::eventfd(0, EFD_CLOEXEC));
    if (!*wake_) return false;
    made_ = io_uring_queue_init(kDepth + 1, &ring_, 0) == 0;
    return made_;
  }
  const std::shared_ptr<Descriptor>& wake() const { return wake_; }

  void run() {
    listen();
    for (;;) {
      const bool stopped = reads_->core().gets.stopped();
      if (stopped) reads_->abandon_queue();
      if (!stopped) start_more();
      answer();
      if (stopped && in_flight_.empty() && !listening_) break;
      const int error = io_uring_submit_and_wait(&ring_, 1);
      if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
        give_up();
        return;
      }
      io_uring_cqe* completion = nullptr;
      while (io_uring_peek_cqe(&ring_, &completion) == 0) {
        BlockRead* read = static_cast<BlockRead*>(io_uring_cqe_get_data(completion));
        const int result = completion->res;
        io_uring_cqe_seen(&ring_, completion);
        if (read == nullptr) {
          listening_ = false;
          if (!reads_->core().gets.stopped()) listen();
        } else {
          complete(read, result);
        }
      }
    }
    reads_->abandon_queue();
  }

 private:
  void listen() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, wake_->get(), &woken_, sizeof woken_, 0);
    io_uring_sqe_set_data(entry, nullptr);
    listening_ = true;
  }

  void start_more() {
    while (in_flight_.size() < depth_ && (in_flight_.empty() || bytes_ < kMostBytes)) {
      std::optional<QueuedGet> asked = reads_->core().gets.try_pop();
      if (!asked) return;
      std::unique_ptr<BlockRead> read = reads_->begin(std::move(*asked), ended_);
      asked.reset();
      if (ended_.size() >= kMostAnswers) answer();
      if (!read) continue;
      bytes_ += read->bytes;
      BlockRead* key = read.get();
      in_flight_.emplace(key, std::move(read));
      submit(*key);
    }
  }

  // The ring has one entry for each read in flight and one for the event, so there is always one.
  void submit(BlockRead& read) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const uint64_t left = std::min(read.bytes - read.done, kMostAtOnce);
    io_uring_prep_read(entry, read.file->get(), read.blocks.get() + read.done,
                       static_cast<unsigned>(left), read.start + read.done);
    io_uring_sqe_set_data(entry, &read);
  }

  void complete(BlockRead* read, int result) {
    if (result == -EINTR || result == -EAGAIN) return submit(*read);
    if (result == -EINVAL && read->file->direct()) {
      read->file->give_up_direct();
      return submit(*read);
    }
    if (result > 0) {
      read->done += static_cast<uint64_t>(result);
      const bool in_a_block = read->file->direct() && read->done % kBlockBytes != 0;
      if (read->done < read->needed && !in_a_block) return submit(*read);
    }
    const auto found = in_flight_.find(read);
    std::unique_ptr<BlockRead> finished = std::move(found->second);
    in_flight_.erase(found);
    bytes_ -= finished->bytes;
    ended_.push_back(reads_->finish(std::move(finished), result < 0 ? -result : 0));
    if (ended_.size() >= kMostAnswers) answer();
  }

  void answer() {
    reads_->core().answers.answer(ended_);
    ended_.clear();
  }

  // The ring does not work any more, and the system may still write to what is in flight: its
  // memory is left to it.
  void give_up() {
    for (auto& [key, read] : in_flight_) {
      ended_.push_back({read->asked.ticket, TierEnd::failed});
      static_cast<void>(read.release());
    }
    in_flight_.clear();
    answer();
    reads_->serve_queue();
  }

  const std::shared_ptr<DiskReads> reads_;
  std::shared_ptr<Descriptor> wake_;
  io_uring ring_{};
  unsigned depth_ = kDepth;
  bool made_ = false;
  bool listening_ = false;
  uint64_t woken_ = 0;
  std::unordered_map<BlockRead*, std::unique_ptr<BlockRead>> in_flight_;
  uint64_t bytes_ = 0;        // of in_flight_
  std::vector<Ended> ended_;  // not answered yet
};

}  // namespace

std::optional<PatientThread> start_ring(const std::shared_ptr<DiskReads>& reads) {
  auto ring = std::make_shared<Ring>(reads);
  if (!ring->make()) return std::nullopt;
  reads->core().gets.set_wake([wake = ring->wake()] {
    const uint64_t one = 1;
    static_cast<void>(!::write(wake->get(), &one, sizeof one));
  });
  try {
    return PatientThread("foreload-disk", [ring] { ring->run(); });
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace foreload::disk_cache
