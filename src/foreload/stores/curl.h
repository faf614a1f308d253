// SPDX-License-Identifier: Apache-2.0
//
// libcurl, opened at run time: neither the build nor a wheel needs it, and only who names a web
// address does. What is used of it is declared here, with the numbers that its interface has kept
// since version 7. Private to stores. Any thread may use the table; a handle is for one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "foreload/base/result.h"

namespace foreload::curl {

struct Easy;   // a request, and the connection that it may leave for the next one
struct Multi;  // requests that one thread works on

enum Option : int {
  kWriteData = 10001,
  kUrl = 10002,
  kRange = 10007,
  kReadData = 10009,
  kUserAgent = 10018,
  kHeaderData = 10029,
  kMethod = 10036,
  kPrivate = 10103,
  kWriteFunction = 20011,
  kReadFunction = 20012,
  kHeaderFunction = 20079,
  kUploadSize = 30115,
  kSlowBytes = 19,    // bytes a second that are too few,
  kSlowSeconds = 20,  // for so long
  kNoBody = 44,
  kUpload = 46,
  kFollow = 52,
  kMostRedirections = 68,
  kNoSignal = 99,
  kConnectMilliseconds = 156,
  kProtocols = 181,
  kRedirectedProtocols = 182,
};
inline constexpr long kHttpOrHttps = 1 | 2;
enum MultiOption : int { kMostConnections = 6 };
enum Info : int {
  kEffectiveUrl = 0x100001,
  kPrivateOf = 0x100015,
  kStatus = 0x200002,
  kErrno = 0x200019
};
enum Code : int {
  kOk = 0,
  kBadUrl = 3,
  kPartial = 18,
  kWriteError = 23,
  kTooManyRedirections = 47,
  kBadCertificate = 60,
};

struct Message {
  int what;  // 1: done
  Easy* easy;
  union {
    void* other;
    int code;
  } data;
};

struct Library {
  int (*global_init)(long flags);
  Easy* (*easy_init)();
  int (*easy_setopt)(Easy*, int option, ...);
  int (*easy_getinfo)(Easy*, int info, ...);
  int (*easy_perform)(Easy*);
  void (*easy_reset)(Easy*);
  void (*easy_cleanup)(Easy*);
  const char* (*easy_strerror)(int code);
  Multi* (*multi_init)();
  int (*multi_setopt)(Multi*, int option, ...);
  int (*multi_add_handle)(Multi*, Easy*);
  int (*multi_remove_handle)(Multi*, Easy*);
  int (*multi_perform)(Multi*, int* running);
  int (*multi_poll)(Multi*, void* more, unsigned more_count, int milliseconds, int* ready);
  int (*multi_wakeup)(Multi*);
  Message* (*multi_info_read)(Multi*, int* left);
  int (*multi_cleanup)(Multi*);
};

// Opens it with the first call. Fails with `unsupported` and the package to install.
Result<const Library*> library();

}  // namespace foreload::curl
