// SPDX-License-Identifier: Apache-2.0
//
// The store that rank 0 serves for the TCP rendezvous: one thread, any number of connections up to
// a bound. What is no question of foreload's closes its connection and changes nothing; a
// connection that never asks anything, or stops in the middle of a question, is closed after a
// while. Private to peers; put() and get() from any thread.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "foreload/peers/rendezvous.h"

namespace foreload::peers {

class TcpStore {
 public:
  static constexpr size_t kMostConnections = 8192;
  static constexpr size_t kMostStoredBytes = size_t{256} << 20;
  static constexpr std::chrono::seconds kQuestionTimeout{10};

  // Takes a socket that listens.
  explicit TcpStore(int listener);
  ~TcpStore();
  TcpStore(const TcpStore&) = delete;
  TcpStore& operator=(const TcpStore&) = delete;

  bool put(const std::string& key, const std::string& value);  // false: full, or there already
  bool get(const std::string& key, std::chrono::milliseconds timeout, std::string& value);

 private:
  struct Connection;
  void serve();
  void accept_all();
  // False if the connection is to be closed.
  bool read_from(Connection& connection);
  bool write_to(Connection& connection);
  bool answer(Connection& connection);

  const int listener_;
  int wake_ = -1;  // an eventfd: a key was put, or the end
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  size_t stored_bytes_ = 0;
  bool ended_ = false;
  std::list<Connection> connections_;  // of the thread alone
  std::thread thread_;
};

}  // namespace foreload::peers
