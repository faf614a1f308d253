// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/cluster.h"

#include <algorithm>
#include <cmath>

#include "foreload/base/random.h"

namespace foreload::sim {

Cluster::Cluster(const ClusterSettings& settings, uint64_t seed, uint64_t most_reads)
    : settings_(settings), seed_(seed) {
  const auto source = std::make_shared<const ShareTable>(settings_.source.curve);
  add_device(source);
  const uint32_t nodes = settings_.nodes();
  tiers_ = static_cast<uint32_t>(devices_.size());
  std::vector<std::shared_ptr<const ShareTable>> tables;
  for (const TierSettings& tier : settings_.tiers)
    tables.push_back(std::make_shared<const ShareTable>(tier.read.curve));
  for (uint32_t node = 0; node < nodes; ++node) {
    for (const auto& table : tables) add_device(table);
  }
  bool writes = false;
  for (const TierSettings& tier : settings_.tiers) writes = writes || tier.write;
  if (writes) {
    writes_ = static_cast<uint32_t>(devices_.size());
    tables.clear();
    for (const TierSettings& tier : settings_.tiers)
      tables.push_back(std::make_shared<const ShareTable>(tier.write.value_or(Curve::flat(1e15))));
    for (uint32_t node = 0; node < nodes; ++node) {
      for (const auto& table : tables) add_device(table);
    }
  }
  if (nodes > 1) {
    const auto link = std::make_shared<const ShareTable>(Curve::flat(settings_.network));
    links_out_ = static_cast<uint32_t>(devices_.size());
    for (uint32_t node = 0; node < nodes; ++node) add_device(link);
    links_in_ = static_cast<uint32_t>(devices_.size());
    for (uint32_t node = 0; node < nodes; ++node) add_device(link);
  }
  if (settings_.preprocess && settings_.preprocess_cpus > 0) {
    const double one = *settings_.preprocess;
    const double all = settings_.preprocess_cpus;
    const auto table = std::make_shared<const ShareTable>(
        all == 1 ? Curve::flat(one) : *Curve::create({{1, one}, {all, all * one}}));
    cpus_ = static_cast<uint32_t>(devices_.size());
    for (uint32_t node = 0; node < nodes; ++node) add_device(table);
  }
  if (settings_.source_link) {
    double most = 0;  // that the source gives one read
    for (const Curve::Point& point : settings_.source.curve.points())
      most = std::max(most, point.rate / std::max(1.0, point.concurrency));
    if (*settings_.source_link < most * static_cast<double>(most_reads)) {
      const auto link = std::make_shared<const ShareTable>(Curve::flat(*settings_.source_link));
      source_links_ = static_cast<uint32_t>(devices_.size());
      for (uint32_t node = 0; node < nodes; ++node) add_device(link);
    }
  }
}

uint32_t Cluster::add_device(const std::shared_ptr<const ShareTable>& table) {
  devices_.emplace_back(table, agenda_);
  const auto number = static_cast<uint32_t>(devices_.size() - 1);
  own(devices_.back().slot(), kDevice + number);
  return number;
}

void Cluster::own(uint32_t slot, uint32_t owner) {
  if (slot >= owners_.size()) owners_.resize(slot + 1, kNobody);
  owners_[slot] = owner;
}

double Cluster::draw(const Latency& latency) {
  if (latency.spread == 0) return latency.mean;
  const double normal = philox_normal(seed_, draws_++, 0x6c6174656e6379)[0];
  return latency.mean * std::exp(latency.spread * normal - latency.spread * latency.spread / 2);
}

void Cluster::add_source(Transfer& transfer, uint32_t node) const {
  transfer.devices[transfer.legs++] = 0;
  if (source_links_ != 0) transfer.devices[transfer.legs++] = source_links_ + node;
}

void Cluster::add_network(Transfer& transfer, uint32_t from, uint32_t to) const {
  if (from == to) return;
  transfer.devices[transfer.legs++] = links_out_ + from;
  transfer.devices[transfer.legs++] = links_in_ + to;
}

void Cluster::add_cpus(Transfer& transfer, uint32_t node, double seconds_for_byte) const {
  if (cpus_ == 0 || seconds_for_byte == 0) return;
  transfer.work = std::max<uint64_t>(1, std::llround(static_cast<double>(transfer.bytes) *
                                                     seconds_for_byte * *settings_.preprocess));
  transfer.devices[transfer.legs++] = cpus_ + node;
}

void Cluster::read(uint32_t rank, const Place& place, uint64_t bytes, uint64_t token,
                   double delay) {
  Transfer transfer{token, bytes, 0, {}};
  const uint32_t node = settings_.node_of(rank);
  double wait = 0;
  if (place.kind == Place::Kind::source) {
    add_source(transfer, node);
    add_cpus(transfer, node, settings_.source.cpu);
    wait = draw(settings_.source.latency) + (place.detour ? settings_.network_latency : 0);
  } else {
    const uint32_t holder = settings_.node_of(place.rank);
    transfer.devices[transfer.legs++] = tiers_ + at(holder, place.tier);
    add_network(transfer, holder, node);
    wait = draw(settings_.tiers[place.tier].read.latency);
    if (holder != node) wait += settings_.network_latency;
  }
  begin(transfer, wait + delay);
}

void Cluster::fill(uint32_t rank, uint32_t tier, uint64_t bytes, uint64_t token) {
  Transfer transfer{token, bytes, 0, {}};
  const uint32_t node = settings_.node_of(rank);
  add_source(transfer, node);
  if (settings_.tiers[tier].write) transfer.devices[transfer.legs++] = writes_ + at(node, tier);
  add_cpus(transfer, node, settings_.source.cpu + settings_.tiers[tier].write_cpu);
  begin(transfer, draw(settings_.source.latency));
}

void Cluster::write(uint32_t rank, uint32_t tier, uint64_t bytes, uint64_t token) {
  Transfer transfer{token, bytes, 0, {}};
  const uint32_t node = settings_.node_of(rank);
  if (settings_.tiers[tier].write) transfer.devices[transfer.legs++] = writes_ + at(node, tier);
  add_cpus(transfer, node, settings_.tiers[tier].write_cpu);
  begin(transfer, 0);
}

void Cluster::send(uint32_t from, uint32_t to, uint64_t bytes, uint64_t token, double delay) {
  Transfer transfer{token, bytes, 0, {}};
  if (bytes > 0) add_network(transfer, settings_.node_of(from), settings_.node_of(to));
  begin(transfer, settings_.network_latency + delay);
}

void Cluster::preprocess(uint32_t rank, uint64_t bytes, uint64_t fresh, uint64_t token) {
  if (cpus_ == 0)
    return wait(settings_.preprocess ? static_cast<double>(bytes) / *settings_.preprocess : 0,
                token);
  const double more = static_cast<double>(fresh) * settings_.fresh_cpu * *settings_.preprocess;
  begin({token, bytes + static_cast<uint64_t>(more), 1, {cpus_ + settings_.node_of(rank)}}, 0);
}

uint32_t Cluster::keep(const Transfer& transfer) {
  if (free_.empty()) {
    transfers_.push_back(transfer);
    return static_cast<uint32_t>(transfers_.size() - 1);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  transfers_[number] = transfer;
  return number;
}

void Cluster::begin(const Transfer& transfer, double wait) {
  if (wait == 0 && transfer.legs == 1)
    return devices_[transfer.devices[0]].start(agenda_, transfer.amount(0),
                                               kAlone | transfer.token);
  const uint32_t number = keep(transfer);
  if (wait == 0 && transfer.legs > 0) return start_legs(number);
  const uint32_t slot = agenda_.add();
  own(slot, kWait + number);
  agenda_.set(slot, agenda_.now() + wait);
}

void Cluster::start_legs(uint32_t number) {
  const Transfer& transfer = transfers_[number];
  for (uint32_t leg = 0; leg < transfer.legs; ++leg)
    devices_[transfer.devices[leg]].start(agenda_, transfer.amount(leg), number);
}

std::optional<uint64_t> Cluster::woken(uint32_t slot) {
  const uint32_t owner = owners_[slot];
  if (owner >= kWait) {
    const uint32_t number = owner - kWait;
    owners_[slot] = kNobody;
    agenda_.remove(slot);
    if (transfers_[number].legs > 0) {
      start_legs(number);
      return std::nullopt;
    }
    free_.push_back(number);
    return transfers_[number].token;
  }
  const uint64_t ticket = devices_[owner - kDevice].end(agenda_);
  if (ticket & kAlone) return ticket & ~kAlone;
  if (--transfers_[ticket].legs > 0) return std::nullopt;
  free_.push_back(static_cast<uint32_t>(ticket));
  return transfers_[ticket].token;
}

}  // namespace foreload::sim
