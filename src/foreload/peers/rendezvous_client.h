// SPDX-License-Identifier: Apache-2.0
//
// The side of a served rendezvous that asks rank 0: one question at a time, and its answer. A get()
// whose time is over leaves its question open: the same one again goes on waiting for the answer,
// and another one takes its place. What carries questions and answers derives from it. Any thread
// may call; one call is served at a time. Private to peers.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "foreload/peers/rendezvous.h"
#include "foreload/peers/rendezvous_frames.h"

namespace foreload::peers {

class RendezvousClient : public Rendezvous {
 public:
  Result<void> put(const std::string& key, const std::string& value) final;
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) final;

 protected:
  using Clock = std::chrono::steady_clock;

  // `place` is where the rendezvous is, for messages: "at HOST:PORT".
  explicit RendezvousClient(std::string place) : place_(std::move(place)) {}

  // Both fail with `unreadable` if rank 0 cannot be reached; what was asked before is forgotten
  // then. False and nothing: the time is over.
  virtual Result<bool> give(const Frame& question, Clock::time_point deadline) = 0;
  virtual Result<std::optional<Frame>> take_answer(Clock::time_point deadline) = 0;

  const std::string place_;

 private:
  Result<Frame> ask(const Frame& question, std::chrono::milliseconds timeout);

  std::mutex mutex_;
  std::string open_;  // the key of a get() that was not answered; empty: none
};

}  // namespace foreload::peers
