// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/host_transport.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/peers/host_socket.h"
#include "foreload/peers/host_stream.h"

namespace foreload::peers {
namespace {

// What one connection may read or write before the others have their turn.
constexpr size_t kTurnBytes = size_t{4} << 20;
// When to try again what the system had no room for.
constexpr int kRetryMs = 5;

// A message on its way out.
struct HostSending {
  uint32_t to = 0;
  uint64_t id = 0;
  std::vector<std::byte> start;  // and the header behind it
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keeper;
  uint64_t written = 0;

  uint64_t bytes() const { return start.size() + payload.size(); }
};

struct HostPeer {
  std::string name;  // of its socket
  Descriptor out;
  bool watched_for_room = false;
  std::deque<HostSending> waiting;
  std::atomic<bool> dropped = false;
  bool lost = false;  // and reported; until something comes from it again
};

class HostTransport final : public Transport {
 public:
  HostTransport(const TransportSettings& settings, TransportCalls calls)
      : rank_(settings.rank), calls_(std::move(calls)), peers_(settings.ranks) {}
  ~HostTransport() override {
    if (!thread_.joinable()) return;
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
    }
    ::eventfd_write(wake_.get(), 1);
    thread_.join();
  }

  Result<void> join(const TransportSettings& settings);
  void send(uint32_t to, OutgoingMessage message) override;
  void drop(uint32_t rank) override;
  std::string describe() const override { return "host (Unix sockets)"; }

 private:
  // The thread's.
  void work();
  bool take_inbox();
  void let_in();
  void read_from(int connection);
  void write_to(uint32_t rank);
  bool connect(uint32_t rank);
  void watch(int descriptor, uint32_t events, bool known);
  void close_out(uint32_t rank);
  void lose(uint32_t rank, const std::string& why);
  void fail_waiting(uint32_t rank);
  void forget(uint32_t rank);

  const uint32_t rank_;
  const TransportCalls calls_;
  std::vector<HostPeer> peers_;
  Descriptor listener_, wake_, events_;
  std::map<int, std::unique_ptr<HostStream>> in_;  // by descriptor
  std::map<int, uint32_t> out_;                    // ranks, the same
  std::set<uint32_t> ready_;                       // peers that may be written to

  std::mutex mutex_;
  bool ending_ = false;
  std::vector<HostSending> inbox_;
  std::vector<uint32_t> to_drop_;
  std::thread thread_;
};

Result<void> HostTransport::join(const TransportSettings& settings) {
  FORELOAD_TRY(HostListener listener, listen_on_host());
  listener_ = std::move(listener.socket);
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  events_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!wake_ || !events_)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot make an eventfd: {}. Raise the limit of open files",
                            std::strerror(errno)));
  FORELOAD_TRY(const auto names, exchange(*settings.rendezvous, "host address", rank_,
                                          settings.ranks, listener.name, settings.join_timeout));
  for (uint32_t r = 0; r < settings.ranks; ++r) peers_[r].name = names[r];
  watch(listener_.get(), EPOLLIN, false);
  watch(wake_.get(), EPOLLIN, false);
  thread_ = start_own_thread("fl-host", [this] { work(); });
  return {};
}

void HostTransport::send(uint32_t to, OutgoingMessage message) {
  assert(to < peers_.size() && to != rank_);
  assert(!message.header.empty() && message.header.size() <= kMostHeaderBytes);
  HostSending sending;
  sending.to = to;
  sending.id = message.id;
  MessageStart start;
  start.header_bytes = static_cast<uint32_t>(message.header.size());
  start.payload_bytes = message.payload.size();
  sending.start.resize(sizeof start + message.header.size());
  std::memcpy(sending.start.data(), &start, sizeof start);
  std::memcpy(sending.start.data() + sizeof start, message.header.data(), message.header.size());
  sending.payload = message.payload;
  sending.keeper = std::move(message.keeper);
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = inbox_.empty();
    inbox_.push_back(std::move(sending));
  }
  if (first) ::eventfd_write(wake_.get(), 1);
}

void HostTransport::drop(uint32_t rank) {
  peers_[rank].dropped = true;
  {
    const std::scoped_lock lock(mutex_);
    to_drop_.push_back(rank);
  }
  ::eventfd_write(wake_.get(), 1);
}

void HostTransport::watch(int descriptor, uint32_t events, bool known) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  ::epoll_ctl(events_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, &event);
}

void HostTransport::work() {
  std::vector<epoll_event> happened(64);
  while (take_inbox()) {
    for (const uint32_t rank : std::exchange(ready_, {})) write_to(rank);
    const int count =
        ::epoll_wait(events_.get(), happened.data(), static_cast<int>(happened.size()),
                     ready_.empty() ? -1 : kRetryMs);
    for (int i = 0; i < count; ++i) {
      const int descriptor = happened[i].data.fd;
      if (descriptor == wake_.get()) {
        eventfd_t times = 0;
        ::eventfd_read(descriptor, &times);
      } else if (descriptor == listener_.get()) {
        let_in();
      } else if (in_.contains(descriptor)) {
        read_from(descriptor);
      } else if (const auto out = out_.find(descriptor); out != out_.end()) {
        // Nobody writes here, so there is nothing to read but the end.
        std::byte nothing;
        const ssize_t got = ::recv(descriptor, &nothing, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
          lose(out->second, "its connection has ended");
        } else {
          ready_.insert(out->second);
        }
      }
    }
  }
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) fail_waiting(rank);
}

// False: this is the end.
bool HostTransport::take_inbox() {
  std::vector<HostSending> inbox;
  std::vector<uint32_t> to_drop;
  bool ending = false;
  {
    const std::scoped_lock lock(mutex_);
    inbox.swap(inbox_);
    to_drop.swap(to_drop_);
    ending = ending_;
  }
  for (HostSending& sending : inbox) {
    ready_.insert(sending.to);
    peers_[sending.to].waiting.push_back(std::move(sending));
  }
  for (const uint32_t rank : to_drop) forget(rank);
  return !ending;
}

void HostTransport::let_in() {
  bool exhausted = false;
  while (Descriptor connection = accept_from_host(listener_.get(), exhausted)) {
    const int number = connection.get();
    in_.emplace(number, std::make_unique<HostStream>(std::move(connection)));
    watch(number, EPOLLIN, false);
  }
  if (exhausted) std::this_thread::sleep_for(std::chrono::milliseconds(kRetryMs));
}

void HostTransport::read_from(int connection) {
  HostStream& stream = *in_.at(connection);
  const bool known = stream.from().has_value();
  const HostStream::Limits limits{rank_, static_cast<uint32_t>(peers_.size())};
  const auto ignored = [&](uint32_t rank) { return peers_[rank].dropped.load(); };
  const bool goes_on = stream.read(kTurnBytes, limits, calls_, ignored);
  const auto from = stream.from();
  if (from && !ignored(*from)) peers_[*from].lost = peers_[*from].lost && known;
  if (goes_on && !(from && ignored(*from))) return;
  std::unique_ptr<HostStream> ended = std::move(in_.at(connection));
  in_.erase(connection);
  if (!from || ignored(*from)) return;
  ended->cut(calls_);
  lose(*from, "its connection has ended");
}

void HostTransport::write_to(uint32_t rank) {
  HostPeer& peer = peers_[rank];
  if (peer.dropped) return fail_waiting(rank);
  size_t turn = 0;
  while (!peer.waiting.empty()) {
    if (!peer.out && !connect(rank)) return;
    HostSending& sending = peer.waiting.front();
    iovec pieces[2] = {};
    size_t count = 0;
    if (sending.written < sending.start.size())
      pieces[count++] = {sending.start.data() + sending.written,
                         sending.start.size() - sending.written};
    const uint64_t of_payload =
        std::max<uint64_t>(sending.written, sending.start.size()) - sending.start.size();
    if (of_payload < sending.payload.size())
      pieces[count++] = {const_cast<std::byte*>(sending.payload.data() + of_payload),
                         sending.payload.size() - of_payload};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    const ssize_t written = ::sendmsg(peer.out.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) {
      if (!std::exchange(peer.watched_for_room, true)) watch(peer.out.get(), EPOLLOUT, true);
      return;
    }
    if (written < 0) return lose(rank, fmt::format("cannot send: {}", std::strerror(errno)));
    sending.written += static_cast<uint64_t>(written);
    turn += static_cast<size_t>(written);
    if (sending.written == sending.bytes()) {
      const uint64_t id = sending.id;
      peer.waiting.pop_front();
      calls_.sent(id, true);
    }
    if (turn >= kTurnBytes) {
      if (!std::exchange(peer.watched_for_room, true)) watch(peer.out.get(), EPOLLOUT, true);
      return;
    }
  }
  if (peer.out && std::exchange(peer.watched_for_room, false)) watch(peer.out.get(), 0, true);
}

bool HostTransport::connect(uint32_t rank) {
  HostPeer& peer = peers_[rank];
  bool later = false;
  peer.out = connect_on_host(peer.name, later);
  if (!peer.out) {
    if (later) {
      ready_.insert(rank);
    } else {
      lose(rank, "nobody listens at its socket any more");
    }
    return false;
  }
  Hello hello;
  hello.rank = rank_;
  // A new connection has room for it.
  ::send(peer.out.get(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT);
  out_[peer.out.get()] = rank;
  peer.watched_for_room = false;
  watch(peer.out.get(), 0, false);
  return true;
}

void HostTransport::close_out(uint32_t rank) {
  HostPeer& peer = peers_[rank];
  if (!peer.out) return;
  out_.erase(peer.out.get());
  peer.out.close();
}

void HostTransport::lose(uint32_t rank, const std::string& why) {
  close_out(rank);
  fail_waiting(rank);
  if (peers_[rank].dropped || std::exchange(peers_[rank].lost, true)) return;
  calls_.lost(rank, why);
}

void HostTransport::fail_waiting(uint32_t rank) {
  for (HostSending& sending : std::exchange(peers_[rank].waiting, {})) {
    sending.keeper.reset();
    calls_.sent(sending.id, false);
  }
}

// Dropped: nothing of it is left but what others hold.
void HostTransport::forget(uint32_t rank) {
  close_out(rank);
  fail_waiting(rank);
  std::erase_if(in_, [&](const auto& stream) { return stream.second->from() == rank; });
}

}  // namespace

Result<std::unique_ptr<Transport>> make_host_transport(const TransportSettings& settings,
                                                       TransportCalls calls) {
  if (settings.rank >= settings.ranks || !settings.rendezvous)
    return fail(ErrorKind::invalid,
                fmt::format("the host transport needs a rendezvous and a rank below the number of "
                            "ranks; this is rank {} of {}",
                            settings.rank, settings.ranks));
  auto transport = std::make_unique<HostTransport>(settings, std::move(calls));
  FORELOAD_CHECK(transport->join(settings));
  return transport;
}

}  // namespace foreload::peers
