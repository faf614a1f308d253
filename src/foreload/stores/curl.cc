// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/curl.h"

#include <dlfcn.h>

#include <string>

#include <fmt/format.h>

#include "foreload/base/shared_library.h"

namespace foreload::curl {
namespace {

// The same interface with three libraries for https.
constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};

Result<Library> load() {
  void* handle = nullptr;
  std::string why;
  Library table{};
  load_guarded({}, [&] {
    for (const char* name : kNames) {
      handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) break;
      if (why.empty()) why = ::dlerror();
    }
    if (handle == nullptr) return;
#define FORELOAD_CURL(name) \
  if (!look_up(::dlsym(handle, "curl_" #name), table.name)) why = "it has no curl_" #name
    why.clear();
    FORELOAD_CURL(global_init);
    FORELOAD_CURL(easy_init);
    FORELOAD_CURL(easy_setopt);
    FORELOAD_CURL(easy_getinfo);
    FORELOAD_CURL(easy_perform);
    FORELOAD_CURL(easy_reset);
    FORELOAD_CURL(easy_cleanup);
    FORELOAD_CURL(easy_strerror);
    FORELOAD_CURL(multi_init);
    FORELOAD_CURL(multi_setopt);
    FORELOAD_CURL(multi_add_handle);
    FORELOAD_CURL(multi_remove_handle);
    FORELOAD_CURL(multi_perform);
    FORELOAD_CURL(multi_poll);
    FORELOAD_CURL(multi_wakeup);
    FORELOAD_CURL(multi_info_read);
    FORELOAD_CURL(multi_cleanup);
#undef FORELOAD_CURL
    constexpr long kEverything = 3;
    if (why.empty() && table.global_init(kEverything) != kOk) why = "it does not start";
  });
  if (why.empty()) return table;
  return fail(
      ErrorKind::unsupported,
      fmt::format("web addresses need libcurl 7.68 or newer, which cannot be used here ({}); "
                  "install it (Debian, Ubuntu: apt-get install libcurl4), or copy the data "
                  "to a file system",
                  why));
}

}  // namespace

Result<const Library*> library() {
  static const Result<Library> loaded = load();
  if (!loaded) return tl::unexpected(loaded.error());
  return &*loaded;
}

}  // namespace foreload::curl
