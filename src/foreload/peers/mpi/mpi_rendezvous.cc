// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi/mpi_rendezvous.h"

#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <list>
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
constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{2000};

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

class Asking final : public peers::RendezvousClient {
 public:
  explicit Asking(MPI_Comm own) : RendezvousClient("over MPI"), own_(own), outbox_(own) {}

 private:
  Result<bool> give(const Frame& question, Clock::time_point) override {
    if (finalized()) return ended();
    outbox_.send(0, kQuestionTag,
                 peers::frame_start(question.kind, question.key, question.value.size()),
                 std::make_shared<const std::string>(question.value));
    return true;
  }
  Result<std::optional<Frame>> take_answer(Clock::time_point deadline) override {
    std::chrono::microseconds pause = kShortestPause;
    for (;;) {
      if (finalized()) return ended();
      Frame answer;
      int sender = 0;
      if (take_arrived(own_, 0, kAnswerTag, answer, sender)) return answer;
      if (Clock::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }
  static tl::unexpected<Error> ended() {
    return fail(ErrorKind::unreadable, "the rendezvous over MPI has ended with MPI_Finalize");
  }

  const MPI_Comm own_;
  Outbox outbox_;
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
  return std::make_unique<Asking>(own);
}

}  // namespace foreload::mpi
