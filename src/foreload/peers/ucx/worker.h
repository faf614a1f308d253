// SPDX-License-Identifier: Apache-2.0
//
// A UCX context and worker, on the job's interface only, connecting without blocking. What UCX
// would do to the process as a whole (signal handlers, memory hooks, output), load_transport()
// keeps it from. One thread at a time.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "foreload/base/result.h"
#include "foreload/peers/ucx/library.h"

namespace foreload::ucx {

class Worker {
 public:
  // `interface` is the name of a network device; empty: what UCX_NET_DEVICES says, and an error if
  // that says nothing.
  static Result<std::unique_ptr<Worker>> open(const std::string& interface);
  ~Worker() { close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // All memory that was given to UCX is free after that.
  void close();

  ucp_worker_h get() const { return worker_; }
  // What others need to reach this worker; bytes.
  const std::string& address() const { return address_; }
  const std::string& devices() const { return devices_; }  // "tcp, lo"

  // Whether there was progress.
  bool progress() { return library().ucp_worker_progress(worker_) != 0; }
  // Waits until something happened here or `wake` can be read, without using the processor.
  void sleep(int wake, std::chrono::milliseconds most);

 private:
  Worker() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;
  std::string address_;
  std::string devices_;
};

}  // namespace foreload::ucx
