// SPDX-License-Identifier: Apache-2.0
//
// UCX itself, opened at run time: every function of it that the transport calls, in one table. So
// the module needs no UCX to be loaded, and works with any version from 1.13 on, whichever headers
// it was compiled with: structures of UCX say themselves which of their fields count.
#pragma once

#include <ucp/api/ucp.h>

#include <filesystem>

#include "foreload/base/result.h"

namespace foreload::ucx {

// The oldest version that will do, and what the library is asked to behave like.
inline constexpr unsigned kOldestMajor = 1;
inline constexpr unsigned kOldestMinor = 13;

// clang-format off
#define FORELOAD_UCP_FUNCTIONS(each)                                                              \
  each(ucp_am_send_nbx) each(ucp_cleanup) each(ucp_config_modify) each(ucp_config_read)           \
  each(ucp_config_release) each(ucp_ep_close_nbx) each(ucp_ep_create) each(ucp_ep_flush_nbx)      \
  each(ucp_get_version) each(ucp_init_version) each(ucp_request_check_status)                     \
  each(ucp_request_free) each(ucp_worker_arm) each(ucp_worker_create) each(ucp_worker_destroy)    \
  each(ucp_worker_get_efd) each(ucp_worker_progress) each(ucp_worker_query)                       \
  each(ucp_worker_release_address) each(ucp_worker_set_am_recv_handler)
// clang-format on
// Of libucs.so.0.
#define FORELOAD_UCS_FUNCTIONS(each) each(ucs_status_string)

struct Library {
#define FORELOAD_MEMBER(name) decltype(&::name) name = nullptr;
  FORELOAD_UCP_FUNCTIONS(FORELOAD_MEMBER)
  FORELOAD_UCS_FUNCTIONS(FORELOAD_MEMBER)
#undef FORELOAD_MEMBER
  unsigned major = 0, minor = 0;
};

// Opens libucp.so.0 and libucs.so.0, once a process: from `folder` if it is given, else those that
// the process has loaded, else the system's, else those in `package`. Two UCX in one process would
// share half of their libraries, so another one is never opened. Fails with `unreadable` if there
// is none, `invalid` if it is too old or another one than `folder` names. One thread at a time.
Result<void> open_library(const std::filesystem::path& folder,
                          const std::filesystem::path& package);

// REQUIRES: open_library() did not fail. Any thread.
const Library& library();

}  // namespace foreload::ucx
