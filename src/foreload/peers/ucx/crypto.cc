// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/crypto.h"

#include <dlfcn.h>

#include <string>

#include <fmt/format.h>

#include "foreload/base/shared_library.h"

namespace foreload::ucx {
namespace {

Crypto opened_crypto;  // of the process, as OpenSSL is

}  // namespace

Result<void> open_crypto() {
  std::string why;
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    std::string missing;
    if (library == nullptr) missing = ::dlerror();
    Crypto table;
#define FORELOAD_LOOK_UP(name)                                          \
  if (missing.empty() && !look_up(::dlsym(library, #name), table.name)) \
    missing = "no " #name " in it";
    FORELOAD_CRYPTO_FUNCTIONS(FORELOAD_LOOK_UP)
#undef FORELOAD_LOOK_UP
    if (missing.empty()) {
      opened_crypto = table;
      return {};
    }
    why += (why.empty() ? "" : "; ") + missing;
  }
  return fail(ErrorKind::unreadable,
              fmt::format("the ucx transport, which signs what it sends, cannot load OpenSSL: {}. "
                          "Install OpenSSL 3 or 1.1 (Debian, Ubuntu: apt-get install libssl3)",
                          why));
}

const Crypto& crypto() {
  return opened_crypto;
}

}  // namespace foreload::ucx
