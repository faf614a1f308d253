// SPDX-License-Identifier: Apache-2.0
//
// The devices of a simulated cluster: one source, and for each node its tiers, its CPUs and its
// link to the other nodes; ranks of a node share them. CPUs preprocess, and where that is known
// they are needed to read and to write too. A transfer passes through one device or several at the
// same time (a copy in another node's memory: that memory, its link out, the reader's link in) and
// ends when the slowest has passed it on, which without contention is size / min(rates).
//
// For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "foreload/sim/agenda.h"
#include "foreload/sim/device.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

// Where a sample is read from.
struct Place {
  enum class Kind : uint8_t { source, own, peer };
  Kind kind = Kind::source;
  bool detour = false;   // a peer was asked in vain first
  bool pending = false;  // the rank is filling that tier with it: wait until it is there
  uint32_t tier = 0;
  uint32_t rank = 0;  // that keeps it
};

class Cluster {
 public:
  // `most_reads`: at most so many reads of a node are under way on the source at a time; links that
  // can never be what limits them are left out. REQUIRES: tokens are below 2^63.
  Cluster(const ClusterSettings& settings, uint64_t seed, uint64_t most_reads);

  Agenda& agenda() { return agenda_; }
  Time now() const { return agenda_.now(); }
  const ClusterSettings& settings() const { return settings_; }

  // Each begins a transfer; its token comes back from woken() when it ends.
  void read(uint32_t rank, const Place& place, uint64_t bytes, uint64_t token, double delay = 0);
  // From the source into a tier of the rank's node.
  void fill(uint32_t rank, uint32_t tier, uint64_t bytes, uint64_t token);
  // From the rank's memory into a tier of its node.
  void write(uint32_t rank, uint32_t tier, uint64_t bytes, uint64_t token);
  // From one rank's memory to another's, after a while: a message of the peer protocol. One without
  // payload only takes the network's latency.
  void send(uint32_t from, uint32_t to, uint64_t bytes, uint64_t token, double delay = 0);

  // A thread of the rank preprocesses a sample, with `fresh` bytes of memory that was not used
  // before.
  void preprocess(uint32_t rank, uint64_t bytes, uint64_t fresh, uint64_t token);

  // Nothing but time.
  void wait(double seconds, uint64_t token) { begin({token, 0, 0, {}}, seconds); }

  // A slot of the agenda was woken. Returns the token of the transfer that has ended, if one has.
  std::optional<uint64_t> woken(uint32_t slot);
  // Whether the slot is one of the cluster's.
  bool owns(uint32_t slot) const { return slot < owners_.size() && owners_[slot] != kNobody; }

  Device& source() { return devices_[0]; }
  const Device& source() const { return devices_[0]; }
  Device& tier(uint32_t node, uint32_t tier) { return devices_[tiers_ + at(node, tier)]; }

 private:
  static constexpr uint32_t kNobody = 0;
  static constexpr uint32_t kDevice = 1;       // owners_: kDevice + number of the device,
  static constexpr uint32_t kWait = 1u << 31;  // or kWait + number of the transfer that waits
  static constexpr uint64_t kAlone = uint64_t{1} << 63;  // a ticket that is the token itself

  struct Transfer {
    uint64_t token = 0;
    uint64_t bytes = 0;
    uint32_t legs = 0;
    std::array<uint32_t, 4> devices{};
    uint64_t work = 0;  // of CPUs, which are the last leg, in bytes that they could preprocess

    uint64_t amount(uint32_t leg) const { return work > 0 && leg + 1 == legs ? work : bytes; }
  };

  uint32_t at(uint32_t node, uint32_t tier) const {
    return node * static_cast<uint32_t>(settings_.tiers.size()) + tier;
  }
  uint32_t add_device(const std::shared_ptr<const ShareTable>& table);
  void add_source(Transfer& transfer, uint32_t node) const;
  void add_network(Transfer& transfer, uint32_t from, uint32_t to) const;
  // The last one to be added.
  void add_cpus(Transfer& transfer, uint32_t node, double seconds_for_byte) const;
  void begin(const Transfer& transfer, double wait);
  void start_legs(uint32_t number);
  uint32_t keep(const Transfer& transfer);
  void own(uint32_t slot, uint32_t owner);
  double draw(const Latency& latency);

  ClusterSettings settings_;
  uint64_t seed_;
  uint64_t draws_ = 0;
  Agenda agenda_;
  std::vector<Device> devices_;
  // First numbers of devices: one per node, tiers together; 0 where there are none.
  uint32_t tiers_ = 0;
  uint32_t writes_ = 0;
  uint32_t links_out_ = 0;
  uint32_t links_in_ = 0;
  uint32_t source_links_ = 0;
  uint32_t cpus_ = 0;
  std::vector<uint32_t> owners_;  // by slot
  std::vector<Transfer> transfers_;
  std::vector<uint32_t> free_;
};

}  // namespace foreload::sim
