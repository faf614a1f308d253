// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "foreload/peers/interfaces.h"
#include "foreload/peers/relay_tree.h"
#include "foreload/peers/rendezvous.h"
#include "foreload/peers/tcp_rendezvous.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

std::string key_of_relay(uint32_t rank) {
  return fmt::format("relay/{}", rank);
}

tl::unexpected<Error> no_relay(const std::string& why) {
  return fail(ErrorKind::unreadable, "cannot get from the rank above: " + why);
}

// The store of the rank above, connected to when first needed. Once it has failed, it is left
// alone.
class RankAbove final : public Rendezvous {
 public:
  RankAbove(std::shared_ptr<Rendezvous> whole, uint32_t rank)
      : whole_(std::move(whole)), rank_(rank) {}

  Result<void> put(const std::string&, const std::string&) override {
    return no_relay("it takes nothing");
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    const std::scoped_lock lock(mutex_);
    if (gone_) return no_relay("it has failed before");
    auto got = get_there(key, Clock::now() + timeout);
    gone_ = !got && got.error().kind != ErrorKind::cancelled;
    return got;
  }

 private:
  static std::chrono::milliseconds left_until(Clock::time_point deadline) {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()),
                    std::chrono::milliseconds(0));
  }
  Result<std::string> get_there(const std::string& key, Clock::time_point deadline) {
    if (!there_) {
      FORELOAD_TRY(const std::string address,
                   whole_->get(key_of_relay(rank_), left_until(deadline)));
      const size_t space = address.rfind(' ');
      uint16_t port = 0;
      if (space == std::string::npos ||
          std::from_chars(address.data() + space + 1, address.data() + address.size(), port).ec !=
              std::errc())
        return no_relay("it passes nothing on");
      FORELOAD_TRY(there_, peers::read_from(address.substr(0, space), port, left_until(deadline)));
    }
    return there_->get(key, left_until(deadline));
  }

  const std::shared_ptr<Rendezvous> whole_;
  const uint32_t rank_;
  std::mutex mutex_;
  std::unique_ptr<Rendezvous> there_;
  bool gone_ = false;
};

class WithRelays final : public Rendezvous {
 public:
  WithRelays(std::shared_ptr<Rendezvous> whole, std::shared_ptr<Rendezvous> above,
             std::shared_ptr<Rendezvous> below)
      : whole_(std::move(whole)), above_(std::move(above)), below_(std::move(below)) {}
  Result<void> put(const std::string& key, const std::string& value) override {
    return whole_->put(key, value);
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    return whole_->get(key, timeout);
  }
  std::shared_ptr<Rendezvous> above() override { return above_; }
  std::shared_ptr<Rendezvous> below() override { return below_; }

 private:
  const std::shared_ptr<Rendezvous> whole_, above_, below_;
};

// Where those below find this rank's store; empty if it cannot have one.
std::string serve_those_below(const std::string& towards, std::shared_ptr<Rendezvous>& below) {
  const auto host = address_towards(towards);
  uint16_t port = 0;
  auto served = host ? peers::serve_readers(*host, port) : tl::unexpected(host.error());
  if (!served) return "";
  below = std::move(*served);
  return fmt::format("{} {}", *host, port);
}

}  // namespace

std::shared_ptr<Rendezvous> with_relays(std::shared_ptr<Rendezvous> whole, uint32_t rank,
                                        uint32_t ranks, const std::string& towards) {
  if (rank == 0) return whole;
  std::shared_ptr<Rendezvous> above, below;
  if (const uint32_t from = peers::rank_above(rank); from != 0)
    above = std::make_shared<RankAbove>(whole, from);
  // Where it cannot be put, nothing else can, and the next call says why.
  if (!peers::ranks_below(rank, ranks).empty())
    (void)whole->put(key_of_relay(rank), serve_those_below(towards, below));
  return std::make_shared<WithRelays>(std::move(whole), std::move(above), std::move(below));
}

}  // namespace foreload
