// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/worker.h"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/peers/ucx/frame.h"

namespace foreload::ucx {
namespace {

tl::unexpected<Error> cannot_open(const std::string& devices, const char* action,
                                  ucs_status_t status) {
  return fail(
      ErrorKind::unreadable,
      fmt::format("cannot {} for the UCX transport on {}: {}. Check that the interface exists "
                  "and is up (`ucx_info -d` lists what UCX can use)",
                  action, devices, library().ucs_status_string(status)));
}

struct Config {
  ucp_config_t* config = nullptr;
  ~Config() {
    if (config != nullptr) library().ucp_config_release(config);
  }
  // Where the user set a variable of UCX, that counts.
  void set_default(const char* name, const char* value) const {
    if (std::getenv(fmt::format("UCX_{}", name).c_str()) == nullptr) {
      library().ucp_config_modify(config, name, value);
    }
  }
  // The variable is called UCX_TCP_NAME. As a key UCX 1.13 knows it by NAME alone, newer versions
  // by TCP_NAME; both let a key that they do not know pass, or refuse it alone.
  void set_default_of_tcp(const char* name, const char* value) const {
    const std::string long_name = fmt::format("TCP_{}", name);
    if (std::getenv(fmt::format("UCX_{}", long_name).c_str()) == nullptr) {
      library().ucp_config_modify(config, name, value);
      library().ucp_config_modify(config, long_name.c_str(), value);
    }
  }
};

}  // namespace

Result<std::unique_ptr<Worker>> Worker::open(const std::string& interface) {
  const char* const chosen = std::getenv("UCX_NET_DEVICES");
  const std::string devices = !interface.empty() ? interface : chosen != nullptr ? chosen : "";
  if (devices.empty()) {
    return fail(ErrorKind::invalid,
                "the UCX transport needs the name of the network interface it may listen on: set "
                "the interface, or UCX_NET_DEVICES");
  }
  std::unique_ptr<Worker> self(new Worker);
  Config config;
  ucs_status_t status = library().ucp_config_read(nullptr, nullptr, &config.config);
  if (status != UCS_OK) return cannot_open(devices, "read UCX's settings", status);
  status = library().ucp_config_modify(config.config, "NET_DEVICES", devices.c_str());
  if (status != UCS_OK) return cannot_open(devices, "choose the interface", status);
  // No shared memory: ranks on one host have foreload's own, which leaves nothing behind. Nobody
  // sends to itself.
  config.set_default("TLS", "^sm,self");
  // Sends without a copy abort the process when a peer vanishes (UCX 1.13 over TCP).
  config.set_default("ZCOPY_THRESH", "inf");
  // Foreload has deadlines of its own; this one would find a stopped peer far too late.
  config.set_default("KEEPALIVE_INTERVAL", "inf");
  config.set_default_of_tcp("CONN_NB", "y");
  // A frame in one segment, and room for more than one where they are received.
  config.set_default_of_tcp("RX_SEG_SIZE", "256k");
  config.set_default_of_tcp("TX_SEG_SIZE", "128k");

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "foreload";
  status = library().ucp_init_version(kOldestMajor, kOldestMinor, &params, config.config,
                                      &self->context_);
  if (status != UCS_OK) return cannot_open(devices, "start UCX", status);

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = library().ucp_worker_create(self->context_, &worker_params, &self->worker_);
  if (status != UCS_OK) return cannot_open(devices, "make a worker", status);
  status = library().ucp_worker_get_efd(self->worker_, &self->events_);
  if (status != UCS_OK) return cannot_open(devices, "wait for events", status);

  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS |
                          UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  // Same-host shortcuts are not wanted, so their addresses need not travel either.
  attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  status = library().ucp_worker_query(self->worker_, &attributes);
  if (status != UCS_OK) return cannot_open(devices, "ask for the own address", status);
  self->address_.assign(reinterpret_cast<const char*>(attributes.address),
                        attributes.address_length);
  library().ucp_worker_release_address(self->worker_, attributes.address);
  if (attributes.max_am_header < kMostFrameBytes) {
    return cannot_open(devices, "send headers", UCS_ERR_EXCEEDS_LIMIT);
  }
  self->devices_ = devices;
  return self;
}

void Worker::close() {
  if (worker_ != nullptr) library().ucp_worker_destroy(std::exchange(worker_, nullptr));
  if (context_ != nullptr) library().ucp_cleanup(std::exchange(context_, nullptr));
}

void Worker::sleep(int wake, std::chrono::milliseconds most) {
  // Busy: something happened since the last progress, and the descriptor will not say so.
  if (library().ucp_worker_arm(worker_) == UCS_ERR_BUSY) return;
  pollfd polled[] = {{events_, POLLIN, 0}, {wake, POLLIN, 0}};
  ::poll(polled, 2, static_cast<int>(most.count()));
}

}  // namespace foreload::ucx
