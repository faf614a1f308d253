// SPDX-License-Identifier: Apache-2.0
//
// How ranks on one host get at each other's memory: a rank publishes a memfd, another one fetches
// it, maps it and reads, without its owner doing anything: also while the owner is stopped. What
// lies where in the memory is not known here. The descriptor passes over a Unix socket in the
// abstract namespace, between processes of the same user only, and nothing of it is left when a
// process dies. The end of a connection tells at once that a process has died.
//
// Any thread may call.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "foreload/base/descriptor.h"
#include "foreload/base/result.h"

namespace foreload {

// The same number for processes that can share memory: same host since it was started, same network
// namespace (abstract sockets are part of it). A name given takes the place of all that, so that
// ranks on one host can count as ranks on several. Never 0.
uint64_t host_number(const std::string& name = "");

class SharedMemory {
 public:
  // A rank that was watched is there no more: it let go of its SharedMemory (`in_order`), or its
  // process has died. Once a rank, from a thread of this object's.
  using Gone = std::function<void(uint32_t rank, bool in_order)>;

  // `job` is the same on all ranks of a job and no other job's. Fails with `invalid` if this rank
  // of this job is there already, `unreadable` if the system refuses.
  static Result<std::unique_ptr<SharedMemory>> open(const std::string& job, uint32_t rank,
                                                    Gone gone = {});
  // Mapped memory stays, here and where it was fetched.
  virtual ~SharedMemory() = default;

  // Lets the ranks of this job on this host fetch this memfd, and seals it: its size cannot change
  // any more. They get it for reading only. The caller's descriptor may be closed afterwards. Once.
  virtual Result<void> publish(int memory) = 0;
  // The memory that a rank published; waits until it does. Its size is that of the file and never
  // changes. Fails with `cancelled` when the time is over, `invalid` if what answers is not this
  // user's or not sealed.
  virtual Result<Descriptor> fetch(uint32_t rank, std::chrono::milliseconds timeout) = 0;
  // Tells `gone` when that rank is. Fails as fetch() does if nobody is there.
  virtual Result<void> watch(uint32_t rank, std::chrono::milliseconds timeout) = 0;
  // Whether a rank that is watched has let go of its SharedMemory, told `gone` or not.
  virtual bool has_left(uint32_t rank) const = 0;
  // Tells those who watch this rank that it goes in order. Nothing may be asked for afterwards.
  virtual void leave() = 0;
};

}  // namespace foreload
