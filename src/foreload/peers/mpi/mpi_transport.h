// SPDX-License-Identifier: Apache-2.0
//
// The transport over MPI, on a communicator of its own. A message is a small MPI message with the
// header and, behind it, the payload in pieces, which are received straight into the place that
// `incoming` named. One thread does everything. MPI cannot wait for an event, so that thread looks
// for news with pauses that grow while nothing happens, up to kLongestPause.
//
// MPI notices no death that it survives: `lost` is called only where the library returns an error,
// and a default MPI job dies with its rank.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreload/peers/delivery_order.h"
#include "foreload/peers/transport.h"

namespace foreload::mpi {

class MpiTransport final : public Transport {
 public:
  static constexpr std::chrono::microseconds kShortestPause{20};
  static constexpr std::chrono::microseconds kLongestPause{2000};

  // Initialises MPI where the program did not, and joins.
  static Result<std::unique_ptr<Transport>> make(const TransportSettings& settings,
                                                 TransportCalls calls);
  ~MpiTransport() override;

  void send(uint32_t to, OutgoingMessage message) override;
  void drop(uint32_t rank) override;
  std::string describe() const override;

 private:
  struct Sending;
  struct Receiving;
  struct HeaderPlace;
  struct Peer {
    std::deque<std::unique_ptr<Sending>> waiting;
    size_t with_mpi = 0;
    peers::DeliveryOrder order;
    bool lost = false;
    bool left = false;  // in good order: its transport has ended
    std::atomic<bool> dropped = false;
  };

  MpiTransport(MPI_Comm own, const TransportSettings& settings, TransportCalls calls);

  // The thread's. Those with a result say whether something happened.
  void work();
  bool take_inbox();
  bool start_sends();
  bool look_at_sends();
  bool look_at_headers();
  bool look_at_payloads();
  void begin_message(uint32_t from, std::span<const std::byte> frame);
  void answer(Sending& sending, bool ok);
  void report_lost(uint32_t rank, int error);
  void say_farewell();
  void finish();

  const uint32_t rank_;
  const TransportCalls calls_;
  MPI_Comm own_;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<HeaderPlace>> headers_;  // posted receives, matched in turn
  size_t next_header_ = 0;
  std::list<std::unique_ptr<Sending>> sending_;
  std::list<std::unique_ptr<Receiving>> receiving_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::vector<std::unique_ptr<Sending>> inbox_;
  std::thread thread_;
};

}  // namespace foreload::mpi
