// SPDX-License-Identifier: Apache-2.0
//
// Samples that first readers give to their keepers: those of this rank that wait for room or an
// answer, and those of peers that are being placed here.
//
// For one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "foreload/policy/fifo.h"
#include "foreload/policy/keepers.h"
#include "foreload/policy/throughput.h"

namespace foreload {

class Pushes {
 public:
  Pushes(Desk& desk, Keepers& keepers, Lives& lives)
      : desk_(desk), keepers_(keepers), lives_(lives), peers_(lives.ranks()) {
    const std::vector<PathSpeed>& known = desk.settings.speeds.peers;
    if (!known.empty() && known[0].rate > 0) told_ = 1 / known[0].rate;
  }

  // Of this rank. What has just arrived for a place goes to its keeper, if that is another rank.
  void push(uint64_t request, uint64_t sample, BatchPlace place);
  // A peer has answered. Nothing if the push is not known any more.
  void answered(const event::PushAnswered& e);
  void drop_peer(uint32_t rank);
  // Calls `owes(rank, since)` for everybody who should answer, and ends what was lost on the way.
  void visit_sent(RunTime lost_after,
                  const std::function<void(uint32_t rank, RunTime since)>& owes);
  uint64_t bytes() const { return bytes_; }  // held until they are answered
  bool idle() const { return pushes_.empty(); }
  // Until all of them are answered, as fast as that has been going; before that, as a profile says.
  double seconds_left() const {
    return static_cast<double>(bytes_) * (flow_.known() ? flow_.seconds_for_one(desk_.now) : told_);
  }

  // Of peers. False if another push of the sample is being placed.
  bool take_in(const event::PeerPush& e);
  void answer(const event::PeerPush& e, PushEnd end);
  // The sample was placed, or not.
  void answer_all(uint64_t sample, PushEnd end);

 private:
  struct Push {
    uint32_t rank;
    uint64_t sample;
    RunTime since;
    bool sent = false;
  };
  struct Peer {
    uint64_t bytes = 0;      // sent, not answered
    Fifo<uint64_t> waiting;  // for room, by number
  };
  using Numbered = std::map<uint64_t, Push>;
  void send(uint32_t rank);
  void end(Numbered::iterator push, bool kept);
  // At least one byte, so that samples without bytes go one by one too.
  uint64_t charge(uint64_t sample) const { return std::max<uint64_t>(desk_.bytes(sample), 1); }

  Desk& desk_;
  Keepers& keepers_;
  Lives& lives_;
  Numbered pushes_;
  uint64_t next_ = kNoPush + 1;
  uint64_t bytes_ = 0;
  Throughput flow_;          // bytes
  double told_ = 0;          // seconds for one byte, by the profile; 0: it does not know
  std::vector<Peer> peers_;  // by rank
  std::map<uint64_t, std::vector<event::PeerPush>> taken_in_;  // by sample
};

}  // namespace foreload
