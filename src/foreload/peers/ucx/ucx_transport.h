// SPDX-License-Identifier: Apache-2.0
//
// The transport over UCX, on active messages with peer error handling. One thread does everything:
// it takes what send() and drop() left for it, drives UCX, makes all calls, and sleeps on UCX's
// event descriptor when there is nothing to do; it never spins.
//
// Payloads go in pieces, eagerly, and are copied once on either side: from the payload into UCX's
// buffer, and from there into the place that `incoming` named. UCX's own ways without a copy
// (rendezvous, zero-copy sends) are not used: in UCX 1.13 over TCP they abort the process when the
// peer vanishes at the wrong moment. One such moment is left: a peer that dies in the milliseconds
// in which a connection with it is made.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "foreload/base/descriptor.h"
#include "foreload/peers/transport.h"
#include "foreload/peers/ucx/peer.h"
#include "foreload/peers/ucx/worker.h"

namespace foreload::ucx {

class UcxTransport final : public Transport {
 public:
  // Joins: gives the own address and waits for those of all ranks.
  static Result<std::unique_ptr<Transport>> make(const TransportSettings& settings,
                                                 TransportCalls calls);
  ~UcxTransport() override;

  void send(uint32_t to, OutgoingMessage message) override;
  void drop(uint32_t rank) override;
  std::string describe() const override;

 private:
  UcxTransport(const TransportSettings& settings, TransportCalls calls);
  Result<void> join(const TransportSettings& settings);

  // The thread's.
  void work();
  void take_inbox();
  void give_to_ucx(Peer& peer);
  void give_frame(Peer& peer, const std::shared_ptr<Sending>& message);
  bool connect(Peer& peer);
  void forget_endpoint(Peer& peer);
  void end_frame(FrameOut* frame, bool ok);
  void answer(Sending& message);
  void fail_waiting(Peer& peer);
  void handle_lost();
  void finish();
  void progress_until(std::chrono::milliseconds most, const std::function<bool()>& over);

  // Called by UCX inside progress().
  static ucs_status_t on_message(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* frame);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  void receive(std::span<const std::byte> frame, std::span<const std::byte> piece);
  void end_receiving(Peer& peer);
  Seal& seal_to(Peer& peer);
  Seal& seal_from(Peer& peer);

  const uint32_t rank_;
  JobSecret secret_;
  const TransportCalls calls_;
  RunNonce nonce_{};
  std::unique_ptr<Worker> worker_;
  std::vector<Peer> peers_;
  std::set<FrameOut*> with_ucx_;  // owned; UCX answers for them, or finish() does
  std::vector<std::pair<uint32_t, std::string>> lost_;  // noticed inside progress()
  std::set<uint32_t> ready_;  // peers with messages that may be given to UCX
  std::vector<ucs_status_ptr_t> closing_;

  Descriptor wake_;  // an eventfd
  std::mutex mutex_;
  bool asleep_ = false;
  bool ending_ = false;
  std::vector<std::shared_ptr<Sending>> inbox_;
  std::vector<uint32_t> to_drop_;
  std::thread thread_;
};

}  // namespace foreload::ucx
