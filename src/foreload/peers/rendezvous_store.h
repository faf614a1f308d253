// SPDX-License-Identifier: Apache-2.0
//
// The keys and values that rank 0 keeps for a rendezvous that it serves itself, and the questions
// of others that wait for a key. What carries questions and answers derives from it and has a
// thread of its own: TcpStore, and the rendezvous over MPI. put() and get() are rank 0's own, from
// any thread; the protected part is for the carrier's thread. Private to peers.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "foreload/peers/rendezvous.h"
#include "foreload/peers/rendezvous_frames.h"

namespace foreload::peers {

class RendezvousStore : public Rendezvous {
 public:
  static constexpr size_t kMostStoredBytes = size_t{256} << 20;

  Result<void> put(const std::string& key, const std::string& value) final;
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) final;

 protected:
  // Whether others than the own rank may put.
  explicit RendezvousStore(bool others_put = true) : others_put_(others_put) {}

  using Asker = uint64_t;                            // a number that the carrier gave
  using Value = std::shared_ptr<const std::string>;  // one copy for all who ask for it
  struct Answer {
    Asker to = 0;
    FrameKind kind = FrameKind::done;
    std::string key;
    Value value;  // never null
  };

  // There are answers to send. Called by put(), from any thread.
  virtual void wake() = 0;
  // Takes a question in; it replaces the one that its asker may still be waiting with. False: that
  // is no question.
  bool take_question(Asker from, Frame question);
  // All that can be answered by now, in the order of the questions or of the keys' coming.
  std::vector<Answer> take_answers();
  // The asker has gone.
  void forget(Asker asker);

 private:
  // With the mutex held.
  bool keep(const std::string& key, std::string value);
  void stop_waiting(Asker asker);

  const bool others_put_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Value> values_;
  size_t stored_bytes_ = 0;
  std::map<std::string, std::set<Asker>> waiting_;  // for a key that is not there
  std::map<Asker, std::string> waits_for_;          // the same, the other way round
  std::vector<Answer> answers_;
};

}  // namespace foreload::peers
