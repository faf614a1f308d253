// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi/mpi_rendezvous.h"

#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/peers/mpi/roll_call.h"
#include "foreload/peers/mpi/start.h"
#include "foreload/peers/relay_tree.h"
#include "foreload/peers/rendezvous_client.h"
#include "foreload/peers/rendezvous_store.h"

namespace foreload::mpi {
namespace {

using Clock = std::chrono::steady_clock;
using peers::Frame;
using peers::FrameState;
using Value = std::shared_ptr<const std::string>;

constexpr int kQuestionTag = 1;
constexpr int kAnswerTag = 2;
constexpr int kPassedOnTag = 3;

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

  // The value stays where it is: many may be sent the same.
  void send(int to, int tag, std::string start, Value value) {
    tidy();
    auto& message = *messages_.emplace_back(std::make_unique<Message>());
    message.start = std::move(start);
    message.value = std::move(value);
    const int lengths[] = {static_cast<int>(message.start.size()),
                           static_cast<int>(message.value->size())};
    MPI_Aint places[2];
    MPI_Get_address(message.start.data(), &places[0]);
    MPI_Get_address(message.value->data(), &places[1]);
    MPI_Datatype both = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &both);
    MPI_Type_commit(&both);
    MPI_Isend(MPI_BOTTOM, 1, both, to, tag, own_, &message.request);
    MPI_Type_free(&both);
  }
  bool empty() const { return messages_.empty(); }
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
    std::string start;
    Value value;
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

tl::unexpected<Error> ended() {
  return fail(ErrorKind::unreadable, "the rendezvous over MPI has ended with MPI_Finalize");
}

// What the rank above passes on comes unasked, and waits here until it is wanted.
class RankAbove final : public Rendezvous {
 public:
  RankAbove(MPI_Comm own, uint32_t rank) : own_(own), rank_(static_cast<int>(rank)) {}

  Result<void> put(const std::string&, const std::string&) override {
    return fail(ErrorKind::invalid, "the rank above takes nothing");
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    const std::scoped_lock lock(mutex_);
    const bool there = look_until(Clock::now() + timeout, [&] {
      Frame frame;
      int sender = 0;
      while (!finalized() && take_arrived(own_, rank_, kPassedOnTag, frame, sender))
        arrived_[frame.key] = std::move(frame.value);
      return finalized() || arrived_.contains(key);
    });
    if (finalized()) return ended();
    if (there) return std::move(arrived_.extract(key).mapped());
    return fail(ErrorKind::cancelled, key + " did not come in time from the rank above");
  }

 private:
  const MPI_Comm own_;
  const int rank_;
  std::mutex mutex_;
  std::map<std::string, std::string> arrived_;
};

// MPI may send only while it is called, so put() waits until those below have received. They wait
// for it; who does not asks rank 0.
class RanksBelow final : public Rendezvous {
 public:
  RanksBelow(MPI_Comm own, std::vector<uint32_t> ranks) : ranks_(std::move(ranks)), outbox_(own) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    constexpr std::chrono::seconds kPatience{2};
    const std::scoped_lock lock(mutex_);
    if (finalized()) return ended();
    const auto shared = std::make_shared<const std::string>(value);
    for (const uint32_t rank : ranks_)
      outbox_.send(static_cast<int>(rank), kPassedOnTag,
                   peers::frame_start(peers::FrameKind::found, key, value.size()), shared);
    look_until(Clock::now() + kPatience, [&] {
      outbox_.tidy();
      return outbox_.empty() || finalized();
    });
    return {};
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds) override {
    return fail(ErrorKind::invalid, "nothing comes from the ranks below, and no " + key);
  }

 private:
  const std::vector<uint32_t> ranks_;
  std::mutex mutex_;
  Outbox outbox_;
};

class Asking final : public peers::RendezvousClient {
 public:
  Asking(MPI_Comm own, uint32_t rank, uint32_t ranks)
      : RendezvousClient("over MPI"), own_(own), outbox_(own) {
    if (const uint32_t from = peers::rank_above(rank); from != 0)
      above_ = std::make_shared<RankAbove>(own, from);
    if (auto below = peers::ranks_below(rank, ranks); !below.empty())
      below_ = std::make_shared<RanksBelow>(own, std::move(below));
  }
  std::shared_ptr<Rendezvous> above() override { return above_; }
  std::shared_ptr<Rendezvous> below() override { return below_; }

 private:
  Result<bool> give(const Frame& question, Clock::time_point) override {
    if (finalized()) return ended();
    outbox_.send(0, kQuestionTag,
                 peers::frame_start(question.kind, question.key, question.value.size()),
                 std::make_shared<const std::string>(question.value));
    return true;
  }
  Result<std::optional<Frame>> take_answer(Clock::time_point deadline) override {
    Frame answer;
    int sender = 0;
    const bool there = look_until(
        deadline, [&] { return finalized() || take_arrived(own_, 0, kAnswerTag, answer, sender); });
    if (finalized()) return ended();
    if (!there) return std::nullopt;
    return answer;
  }

  const MPI_Comm own_;
  Outbox outbox_;
  std::shared_ptr<Rendezvous> above_, below_;
};

class Keeping final : public peers::RendezvousStore {
 public:
  explicit Keeping(MPI_Comm own) : own_(own), outbox_(own) {
    thread_ = start_own_thread("fl-rendezvous", [this] { serve(); });
  }
  ~Keeping() override {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    news_.notify_one();
    thread_.join();
  }

 private:
  void wake() override { news_.notify_one(); }

  void serve() {
    std::chrono::microseconds pause = kShortestPause;
    while (!finalized()) {
      bool news = false;
      Frame question;
      int from = 0;
      while (take_arrived(own_, MPI_ANY_SOURCE, kQuestionTag, question, from))
        news |= take_question(static_cast<Asker>(from), std::move(question));
      for (Answer& answer : take_answers()) {
        news = true;
        const std::string start = peers::frame_start(answer.kind, answer.key, answer.value->size());
        outbox_.send(static_cast<int>(answer.to), kAnswerTag, start, std::move(answer.value));
      }
      outbox_.tidy();
      pause = news ? kShortestPause : std::min(2 * pause, kLongestPause);
      std::unique_lock lock(mutex_);
      if (ended_) return;
      if (!news) news_.wait_for(lock, pause);
    }
  }

  const MPI_Comm own_;
  Outbox outbox_;  // the thread's
  std::mutex mutex_;
  std::condition_variable news_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Rendezvous>> make_rendezvous(const TransportSettings& settings) {
  FORELOAD_CHECK(start_mpi(settings));
  FORELOAD_TRY(const MPI_Comm own, join_all(settings.join_timeout));
  if (settings.rank == 0) return std::make_unique<Keeping>(own);
  return std::make_unique<Asking>(own, settings.rank, settings.ranks);
}

}  // namespace foreload::mpi
