// SPDX-License-Identifier: Apache-2.0
//
// Where ranks find each other at the start: a small store of keys and values that all of them can
// reach. In a folder they share, at a TCP port that rank 0 serves, or over MPI; Python gives
// torch's store in the same shape. Used while joining, and by `foreload read --in-step`; never on
// the data path. Everybody who reaches it can read it: no secret belongs there. Any thread may
// call; one object serves one call at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

inline constexpr size_t kMostKeyBytes = 64;
// What torch's store takes at once is 8 MiB.
inline constexpr size_t kMostValueBytes = 4 << 20;

// Fails with `invalid` if a rendezvous takes no such key, or no value of so many bytes.
Result<void> check_sizes(const std::string& key, size_t value_bytes);

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // A key is put once; keys have 1 to kMostKeyBytes, values at most kMostValueBytes. Fails with
  // `invalid` for others, `unreadable` if the store cannot be reached.
  virtual Result<void> put(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there; with a timeout of 0 it looks once. Fails with `cancelled` when
  // the time is over, `unreadable` if the store cannot be reached.
  virtual Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // What rank 0 puts for everybody, ranks can pass on along a tree: here they get it from the rank
  // above them, or put it for those below. Null: there is nobody, or only the rendezvous itself.
  virtual std::shared_ptr<Rendezvous> above() { return nullptr; }
  virtual std::shared_ptr<Rendezvous> below() { return nullptr; }
};

// Files below `folder`/`job`. Every attempt of a job uses a new `job` name; the folder of an old
// one may be removed at any time.
Result<std::unique_ptr<Rendezvous>> folder_rendezvous(const std::filesystem::path& folder,
                                                      const std::string& job);
// Rank 0 listens on host:port, all others connect to it and try until `timeout`. The store lives as
// long as rank 0's object.
Result<std::unique_ptr<Rendezvous>> tcp_rendezvous(const std::string& host, uint16_t port,
                                                   uint32_t rank,
                                                   std::chrono::milliseconds timeout);

// Lets ranks pass on what `whole` has for everybody, over TCP: those with others below them listen
// at a port that the system chooses, on the interface that leads to the host `towards`, and say at
// `whole` where. What cannot be passed on, everybody gets from `whole`.
std::shared_ptr<Rendezvous> with_relays(std::shared_ptr<Rendezvous> whole, uint32_t rank,
                                        uint32_t ranks, const std::string& towards);

// A part of a rendezvous, so that loaders of one job do not see each other's keys: every key gets
// `prefix` in front. While it waits, `proceed` is asked four times a second; when it says no, get()
// fails with `cancelled`. An empty `proceed` always says yes.
std::unique_ptr<Rendezvous> part_of(std::shared_ptr<Rendezvous> whole, std::string prefix,
                                    std::function<bool()> proceed = {});

// Values of any length, in pieces that a rendezvous takes. The first piece is put last, so whoever
// has got it finds the others. Fail as put() and get() do, get_in_pieces() with `corrupt` too if
// what is there was not put by put_in_pieces(). Keys have at most kMostKeyBytes - 8.
Result<void> put_in_pieces(Rendezvous& rendezvous, const std::string& key,
                           const std::string& value);
Result<std::string> get_in_pieces(Rendezvous& rendezvous, const std::string& key,
                                  std::chrono::milliseconds timeout);

// Gives the own value, of any length, and collects those of all ranks. Rank 0 gathers them and puts
// them together once for everybody, so that the questions asked grow with the ranks and not with
// their square; a long list is passed on from rank to rank. Fails with `cancelled` when the time is
// over; the message names the ranks that are missing.
Result<std::vector<std::string>> exchange(Rendezvous& rendezvous, const std::string& subject,
                                          uint32_t rank, uint32_t ranks, const std::string& value,
                                          std::chrono::milliseconds timeout);

// The last word of a joining: everybody leaves a sign, and rank 0, which may serve the rendezvous,
// waits for all of them, so that nobody finds it gone. Fails as exchange() does.
Result<void> check_in(Rendezvous& rendezvous, const std::string& subject, uint32_t rank,
                      uint32_t ranks, std::chrono::milliseconds timeout);

}  // namespace foreload
