// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi/mpi_rendezvous.h"

#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/peers/mpi/roll_call.h"
#include "foreload/peers/mpi/start.h"
#include "foreload/peers/tcp_frames.h"

namespace foreload::mpi {
namespace {

using Clock = std::chrono::steady_clock;
using peers::check_sizes;
using peers::Frame;
using peers::FrameKind;
using peers::FrameState;

constexpr int kQuestionTag = 1;
constexpr int kAnswerTag = 2;
constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{2000};

tl::unexpected<Error> too_late(const std::string& key) {
  return fail(ErrorKind::cancelled,
              fmt::format("{} did not appear in time in the rendezvous over MPI", key));
}

// Messages on their way. MPI may read what it has not let go for as long as the process lives.
class Outbox {
 public:
  explicit Outbox(MPI_Comm own) : own_(own) {}
  ~Outbox() {
    tidy();
    for (auto& message : messages_) (void)message.release();
  }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void send(int to, int tag, const Frame& frame) {
    tidy();
    auto& message = *messages_.emplace_back(std::make_unique<Message>());
    message.bytes = peers::frame_bytes(frame);
    MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, to, tag, own_,
              &message.request);
  }
  void tidy() {
    if (finalized()) return;
    messages_.remove_if([](auto& message) {
      int done = 0;
      MPI_Test(&message->request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
  }

 private:
  struct Message {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  const MPI_Comm own_;
  std::list<std::unique_ptr<Message>> messages_;
};

// A frame that has arrived, and from whom; nothing if there is none.
bool take_arrived(MPI_Comm own, int from, int tag, Frame& frame, int& sender) {
  for (;;) {
    int there = 0, bytes = 0;
    MPI_Status status;
    if (MPI_Iprobe(from, tag, own, &there, &status) != MPI_SUCCESS || there == 0) return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::string text(static_cast<size_t>(bytes), '\0');
    MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, tag, own, MPI_STATUS_IGNORE);
    sender = status.MPI_SOURCE;
    if (!text.empty() && peers::take_frame(text, frame) == FrameState::complete) return true;
  }
}

class Asking final : public Rendezvous {
 public:
  explicit Asking(MPI_Comm own) : own_(own), outbox_(own) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    FORELOAD_CHECK(check_sizes(key, value.size()));
    FORELOAD_TRY(const Frame answer, ask({FrameKind::put, key, value}, kPutTimeout));
    if (answer.kind == FrameKind::done) return {};
    return fail(ErrorKind::invalid, fmt::format("cannot put {} into the rendezvous over MPI: it is "
                                                "there already",
                                                key));
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    FORELOAD_CHECK(check_sizes(key, 0));
    FORELOAD_TRY(Frame answer, ask({FrameKind::get, key, {}}, timeout));
    return std::move(answer.value);
  }

 private:
  static constexpr std::chrono::seconds kPutTimeout{10};

  // An answer to a question that was given up may come later; its key tells.
  Result<Frame> ask(const Frame& question, std::chrono::milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    if (finalized())
      return fail(ErrorKind::unreadable, "the rendezvous over MPI has ended with MPI_Finalize");
    const auto deadline = Clock::now() + timeout;
    outbox_.send(0, kQuestionTag, question);
    std::chrono::microseconds pause = kShortestPause;
    for (;;) {
      Frame answer;
      int sender = 0;
      while (take_arrived(own_, 0, kAnswerTag, answer, sender))
        if (answer.key == question.key) return answer;
      if (Clock::now() >= deadline) return too_late(question.key);
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  const MPI_Comm own_;
  std::mutex mutex_;
  Outbox outbox_;
};

class Keeping final : public Rendezvous {
 public:
  Keeping(MPI_Comm own, int ranks) : own_(own), outbox_(own), waiting_(static_cast<size_t>(ranks)) {
    thread_ = start_own_thread("fl-rendezvous", [this] { serve(); });
  }
  ~Keeping() override {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Result<void> put(const std::string& key, const std::string& value) override {
    FORELOAD_CHECK(check_sizes(key, value.size()));
    if (keep(key, value)) return {};
    return fail(ErrorKind::invalid,
                fmt::format("cannot put {} into the rendezvous: it is there already", key));
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    FORELOAD_CHECK(check_sizes(key, 0));
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
      return too_late(key);
    return values_.at(key);
  }

 private:
  bool keep(const std::string& key, const std::string& value) {
    bool ok = false;
    {
      const std::scoped_lock lock(mutex_);
      const auto [entry, fresh] = values_.emplace(key, value);
      ok = fresh || entry->second == value;
    }
    changed_.notify_all();
    return ok;
  }

  void serve() {
    std::chrono::microseconds pause = kShortestPause;
    for (;;) {
      if (finalized()) return;
      bool news = false;
      Frame question;
      int from = 0;
      while (take_arrived(own_, MPI_ANY_SOURCE, kQuestionTag, question, from)) {
        news = true;
        if (question.kind == FrameKind::get) waiting_[static_cast<size_t>(from)] = question.key;
        if (question.kind != FrameKind::put) continue;
        const bool ok = keep(question.key, question.value);
        outbox_.send(from, kAnswerTag,
                     {ok ? FrameKind::done : FrameKind::refused, question.key, {}});
      }
      news |= answer_waiting();
      outbox_.tidy();
      pause = news ? kShortestPause : std::min(2 * pause, kLongestPause);
      std::unique_lock lock(mutex_);
      if (ended_) return;
      if (!news) changed_.wait_for(lock, pause);
    }
  }
  bool answer_waiting() {
    bool news = false;
    const std::scoped_lock lock(mutex_);
    for (size_t rank = 0; rank < waiting_.size(); ++rank) {
      if (waiting_[rank].empty()) continue;
      const auto found = values_.find(waiting_[rank]);
      if (found == values_.end()) continue;
      news = true;
      outbox_.send(static_cast<int>(rank), kAnswerTag,
                   {FrameKind::done, found->first, found->second});
      waiting_[rank].clear();
    }
    return news;
  }

  const MPI_Comm own_;
  Outbox outbox_;                     // the thread's, as the next
  std::vector<std::string> waiting_;  // for which key each rank waits; empty: for none
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::map<std::string, std::string> values_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Rendezvous>> make_rendezvous(const TransportSettings& settings) {
  FORELOAD_CHECK(start_mpi(settings));
  FORELOAD_TRY(const MPI_Comm own, join_all(settings.join_timeout));
  if (settings.rank == 0) return std::make_unique<Keeping>(own, static_cast<int>(settings.ranks));
  return std::make_unique<Asking>(own);
}

}  // namespace foreload::mpi
