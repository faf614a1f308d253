// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/hash.h"
#include "foreload/base/own_thread.h"
#include "foreload/peers/host_socket.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// The last byte on a connection whose owner ends in good order; a process that dies says nothing.
constexpr char kFarewell = '.';

peers::HostAddress address_of(const std::string& job, uint32_t rank) {
  return peers::HostAddress(
      fmt::format("foreload-{}-{}", Digester().add(std::string_view(job)).digest().hex(), rank));
}

// One byte with the descriptor, or a byte alone: nothing is published yet.
void answer(int connection, int memory) {
  char byte = memory >= 0 ? 'y' : 'n';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (memory >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &memory, sizeof memory);
  }
  // A new connection has room for it; whoever does not read has itself to blame.
  ::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// A descriptor; -1: not yet, -2: no answer in time, or nobody is there any more.
int read_answer(int connection, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd polled{connection, POLLIN, 0};
  if (::poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX))) <= 0) return -2;
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) return -2;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
      rights->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int memory = -1;
  std::memcpy(&memory, CMSG_DATA(rights), sizeof memory);
  return memory;
}

class UnixSharedMemory final : public SharedMemory {
 public:
  UnixSharedMemory(std::string job, Descriptor listener, Gone gone)
      : job_(std::move(job)),
        listener_(std::move(listener)),
        gone_(std::move(gone)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread_ = start_own_thread("fl-shared-mem", [this] { serve(); });
  }
  ~UnixSharedMemory() override {
    leave();
    if (memory_ >= 0) ::close(memory_);
  }

  Result<void> publish(int memory) override {
    // Again by its name in /proc, which gives a descriptor for reading only.
    Descriptor readable(
        ::open(fmt::format("/proc/self/fd/{}", memory).c_str(), O_RDONLY | O_CLOEXEC));
    if (!readable || ::fcntl(memory, F_ADD_SEALS, kSeals) != 0)
      return fail(ErrorKind::unreadable,
                  fmt::format("cannot share memory with other ranks on this host: {}. The memory "
                              "must be a memfd that allows seals",
                              std::strerror(errno)));
    int before = -1;
    if (!memory_.compare_exchange_strong(before, readable.get()))
      return fail(ErrorKind::invalid, "this rank has published its memory already");
    readable.release();
    return {};
  }

  Result<Descriptor> fetch(uint32_t rank, std::chrono::milliseconds timeout) override {
    const auto deadline = Clock::now() + timeout;
    for (std::chrono::milliseconds pause(1);; pause = longer(pause)) {
      FORELOAD_TRY(const Descriptor connection, connect(rank, deadline));
      const int memory = read_answer(connection.get(), deadline);
      if (memory >= 0) return checked(rank, Descriptor(memory));
      if (memory == -2 || Clock::now() + pause >= deadline) return nothing_from(rank);
      std::this_thread::sleep_for(pause);
    }
  }

  Result<void> watch(uint32_t rank, std::chrono::milliseconds timeout) override {
    const auto deadline = Clock::now() + timeout;
    FORELOAD_TRY(Descriptor connection, connect(rank, deadline));
    // A descriptor that nobody takes would keep the memory alive.
    const Descriptor answered(read_answer(connection.get(), deadline));
    if (answered.get() == -2) return nothing_from(rank);
    {
      std::lock_guard lock(mutex_);
      watched_.push_back({rank, std::move(connection)});
    }
    ::eventfd_write(wake_.get(), 1);
    return {};
  }

  bool has_left(uint32_t rank) const override {
    std::lock_guard lock(mutex_);
    return left_.contains(rank) || std::ranges::any_of(watched_, [rank](const Watched& watched) {
             return watched.rank == rank && said_farewell(watched.connection.get());
           });
  }

  void leave() override {
    ending_ = true;
    ::eventfd_write(wake_.get(), 1);
    if (thread_.joinable()) thread_.join();
  }

 private:
  static tl::unexpected<Error> foreign(uint32_t rank, const char* why) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot use the shared memory of rank {} on this host: {}. Run all "
                            "ranks of a job as one user and with the same version of foreload",
                            rank, why));
  }
  static Result<Descriptor> checked(uint32_t rank, Descriptor memory) {
    // A file that may shrink would kill whoever has it mapped.
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals) return foreign(rank, "its size is not sealed");
    return memory;
  }
  static std::chrono::milliseconds longer(std::chrono::milliseconds pause) {
    return std::min(2 * pause, std::chrono::milliseconds(50));
  }
  static tl::unexpected<Error> nothing_from(uint32_t rank) {
    return fail(
        ErrorKind::cancelled,
        fmt::format("rank {} did not share its memory in time; its samples come over the network",
                    rank));
  }
  // Waits until somebody listens there.
  Result<Descriptor> connect(uint32_t rank, Clock::time_point deadline) const {
    const peers::HostAddress address = address_of(job_, rank);
    for (std::chrono::milliseconds pause(1);; pause = longer(pause)) {
      Descriptor connection = peers::host_stream();
      if (::connect(connection.get(), address.raw(), address.size) == 0) {
        if (peers::of_own_user(connection.get())) return connection;
        return foreign(rank, "it belongs to another user");
      }
      if (Clock::now() + pause >= deadline) return nothing_from(rank);
      std::this_thread::sleep_for(pause);
    }
  }

  void serve() {
    std::vector<Descriptor> visitors;  // kept until they go: they may watch this rank
    while (!ending_) {
      std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Descriptor& visitor : visitors) polled.push_back({visitor.get(), 0, 0});
      {
        std::lock_guard lock(mutex_);
        for (const Watched& watched : watched_) polled.push_back({watched.connection.get(), 0, 0});
      }
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      eventfd_t woken = 0;
      ::eventfd_read(wake_.get(), &woken);
      // A hang-up is reported whether it was asked for or not.
      auto has_gone = [&polled](const Descriptor& other) {
        return std::any_of(polled.begin() + 2, polled.end(), [&other](const pollfd& entry) {
          return entry.fd == other.get() && entry.revents != 0;
        });
      };
      // Before descriptors of visitors are closed: one of a new connection may have the same
      // number.
      for (const uint32_t rank : take_gone(has_gone))
        if (gone_) gone_(rank, has_left(rank));
      std::erase_if(visitors, has_gone);
      let_in(visitors);
    }
    // From here on nobody can connect; who has already is told as everybody is.
    ::shutdown(listener_.get(), SHUT_RD);
    let_in(visitors);
    for (const Descriptor& visitor : visitors)
      (void)::send(visitor.get(), &kFarewell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  // All that wait.
  void let_in(std::vector<Descriptor>& visitors) const {
    bool exhausted = false;
    while (Descriptor visitor = peers::accept_from_host(listener_.get(), exhausted)) {
      answer(visitor.get(), memory_);
      visitors.push_back(std::move(visitor));
    }
  }
  // Whether a process that has closed its end of a connection meant to.
  static bool said_farewell(int connection) {
    char said = 0;
    return ::recv(connection, &said, 1, MSG_DONTWAIT | MSG_PEEK) == 1 && said == kFarewell;
  }

  struct Watched {
    uint32_t rank;
    Descriptor connection;
  };

  template <class HasGone>
  std::vector<uint32_t> take_gone(const HasGone& has_gone) {
    std::lock_guard lock(mutex_);
    std::vector<uint32_t> gone;
    for (const Watched& watched : watched_) {
      if (!has_gone(watched.connection)) continue;
      gone.push_back(watched.rank);
      if (said_farewell(watched.connection.get())) left_.insert(watched.rank);
    }
    std::erase_if(watched_, [&](const Watched& watched) { return has_gone(watched.connection); });
    return gone;
  }

  const std::string job_;
  const Descriptor listener_;
  const Gone gone_;
  const Descriptor wake_;
  std::atomic<bool> ending_ = false;
  std::atomic<int> memory_ = -1;
  mutable std::mutex mutex_;  // guards the next two
  std::vector<Watched> watched_;
  std::set<uint32_t> left_;  // of those who were watched
  std::thread thread_;
};

}  // namespace

uint64_t host_number(const std::string& name) {
  std::string text = name;
  if (name.empty()) {
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    struct stat network{};
    if (::stat("/proc/self/ns/net", &network) == 0) text += fmt::format("/{}", network.st_ino);
  }
  return std::max<uint64_t>(1, checksum64(std::as_bytes(std::span(text))));
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::open(const std::string& job, uint32_t rank,
                                                         Gone gone) {
  Descriptor listener = peers::host_stream_at(address_of(job, rank));
  if (listener)
    return std::make_unique<UnixSharedMemory>(job, std::move(listener), std::move(gone));
  if (errno == EADDRINUSE)
    return fail(
        ErrorKind::invalid,
        fmt::format("rank {} of this job runs on this host already. Give every rank its own "
                    "number and every job its own name",
                    rank));
  return fail(ErrorKind::unreadable,
              fmt::format("cannot open the Unix socket of rank {} for shared memory: {}. Raise the "
                          "limit of open files, or allow Unix sockets in the container",
                          rank, std::strerror(errno)));
}

}  // namespace foreload
