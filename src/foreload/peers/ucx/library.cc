// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/library.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/shared_library.h"

namespace foreload::ucx {
namespace {

constexpr char kUcp[] = "libucp.so.0";
constexpr char kUcs[] = "libucs.so.0";
constexpr char kRemedy[] =
    "Install UCX 1.13 or newer (pip install foreload[ucx]; Debian, Ubuntu: apt-get install "
    "libucx0), "
    "or set FORELOAD_UCX_LIBRARY to the folder that has libucp.so.0";

Library opened;  // of the process, as UCX is

void* open_in(const std::filesystem::path& folder, const char* name, int how) {
  return ::dlopen((folder.empty() ? name : folder / name).c_str(), RTLD_NOW | RTLD_LOCAL | how);
}

// Where a library that is open came from.
std::string file_of(void* library) {
  Dl_info info{};
  void* const known = ::dlsym(library, "ucp_get_version");
  return known != nullptr && ::dladdr(known, &info) != 0 ? info.dli_fname : "libucp.so.0";
}

Result<void*> open_ucp(const std::filesystem::path& folder, const std::filesystem::path& package) {
  void* const loaded = open_in({}, kUcp, RTLD_NOLOAD);
  if (loaded != nullptr && (folder.empty() || open_in(folder, kUcp, RTLD_NOLOAD) == loaded))
    return loaded;
  if (loaded != nullptr)
    return fail(ErrorKind::invalid,
                fmt::format("cannot load UCX from {}: this process has loaded {} already. Use that "
                            "one, or load foreload first",
                            folder.string(), file_of(loaded)));
  std::vector<std::filesystem::path> folders{folder};
  if (folder.empty() && !package.empty()) folders.push_back(package);
  std::string why;
  for (const auto& each : folders) {
    if (void* const library = open_in(each, kUcp, 0)) return library;
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return fail(ErrorKind::unreadable,
              fmt::format("the ucx transport found no UCX library: {}. {}", why, kRemedy));
}

}  // namespace

Result<void> open_library(const std::filesystem::path& folder,
                          const std::filesystem::path& package) {
  FORELOAD_TRY(void* const ucp, open_ucp(folder, package));
  // The one that belongs to it was loaded with it.
  void* const ucs = open_in({}, kUcs, RTLD_NOLOAD);
  Library table;
  std::string missing;
#define FORELOAD_LOOK_UP_IN(library, name) \
  if (library == nullptr || !look_up(::dlsym(library, #name), table.name)) missing = #name;
#define FORELOAD_LOOK_UP(name) FORELOAD_LOOK_UP_IN(ucp, name)
  FORELOAD_UCP_FUNCTIONS(FORELOAD_LOOK_UP)
#undef FORELOAD_LOOK_UP
#define FORELOAD_LOOK_UP(name) FORELOAD_LOOK_UP_IN(ucs, name)
  FORELOAD_UCS_FUNCTIONS(FORELOAD_LOOK_UP)
#undef FORELOAD_LOOK_UP
#undef FORELOAD_LOOK_UP_IN
  if (!missing.empty())
    return fail(ErrorKind::invalid,
                fmt::format("the UCX library {} has no {}. {}", file_of(ucp), missing, kRemedy));
  unsigned release = 0;
  table.ucp_get_version(&table.major, &table.minor, &release);
  if (table.major != kOldestMajor || table.minor < kOldestMinor)
    return fail(ErrorKind::invalid,
                fmt::format("the UCX library {} has version {}.{}, which foreload cannot use. {}",
                            file_of(ucp), table.major, table.minor, kRemedy));
  opened = table;
  return {};
}

const Library& library() {
  return opened;
}

}  // namespace foreload::ucx
