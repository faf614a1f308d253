// SPDX-License-Identifier: Apache-2.0
//
// Carries the store of rank 0 over TCP: one thread, any number of connections up to a bound, and
// work only for those on which something happens. What is no question of foreload's closes its
// connection and changes nothing; a connection that never asks anything, stops in the middle of a
// question, or takes no more of its answer, is closed after a while. Private to peers.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <thread>

#include "foreload/base/descriptor.h"
#include "foreload/peers/rendezvous_store.h"

namespace foreload::peers {

class TcpStore final : public RendezvousStore {
 public:
  static constexpr size_t kMostConnections = 8192;
  // Of questions that have not arrived whole, all together.
  static constexpr size_t kMostUnfinishedBytes = size_t{256} << 20;
  static constexpr std::chrono::seconds kQuestionTimeout{10};

  // Takes a socket that listens. Fails with `unreadable` where the system gives no more
  // descriptors.
  static Result<std::unique_ptr<Rendezvous>> serve_at(Descriptor listener, bool others_put);
  ~TcpStore() override;
  TcpStore(const TcpStore&) = delete;
  TcpStore& operator=(const TcpStore&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Leaving {
    std::string start;
    Value value;
    size_t sent = 0;  // of both
  };
  struct Connection {
    Descriptor socket;
    std::string in;           // a question that has not arrived whole
    std::deque<Leaving> out;  // answers that have not left
    bool asked = false;       // a whole question, so it is one of ours
    bool watched_for_room = false;
    Clock::time_point since = Clock::now();  // when it last did what it should
  };
  using Connections = std::map<Asker, Connection>;

  TcpStore(Descriptor listener, Descriptor events, Descriptor wake, bool others_put);
  void wake() override;
  void watch(int operation, const Descriptor& socket, uint32_t what, uint64_t number);
  void serve();
  void accept_all();
  void listen_again(bool yes);
  // Those that give false say that the connection is to be closed.
  bool read_from(Asker asker, Connection& connection);
  bool write_to(Asker asker, Connection& connection);
  Connections::iterator close(Connections::iterator connection);
  void close_silent();

  const Descriptor listener_;
  const Descriptor events_;  // of epoll
  const Descriptor wake_;    // an eventfd: there are answers, or the end
  std::atomic<bool> ended_ = false;
  bool listening_ = true;
  Connections connections_;  // of the thread alone, as the next
  Asker next_asker_ = 2;     // smaller ones stand for the listener and the eventfd
  size_t unfinished_bytes_ = 0;
  std::thread thread_;
};

}  // namespace foreload::peers
