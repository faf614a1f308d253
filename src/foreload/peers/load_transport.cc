// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/shared_library.h"
#include "foreload/base/version.h"
#include "foreload/peers/border.h"
#include "foreload/peers/host_transport.h"
#include "foreload/peers/mpi_library.h"
#include "foreload/peers/transport.h"

namespace foreload {
namespace {

// Settings that UCX reads from the environment, and only there, while it is loaded: no patched
// allocation functions, no signal handlers, no output, no file system of its own.
const std::vector<std::string> kForUcx{
    "UCX_MEM_EVENTS=n",    "UCX_ERROR_SIGNALS=", "UCX_HANDLE_ERRORS=none",
    "UCX_LOG_LEVEL=fatal", "UCX_VFS_ENABLE=n",   "UCX_WARN_UNUSED_ENV_VARS=n"};

// The folder of the program or library that contains this code.
std::filesystem::path own_folder() {
  Dl_info info{};
  const auto here = reinterpret_cast<void*>(&own_folder);
  if (::dladdr(here, &info) == 0 || info.dli_fname == nullptr) return ".";
  std::error_code error;
  auto file = std::filesystem::canonical(info.dli_fname, error);
  // A program that was started by its bare name.
  if (error) file = std::filesystem::canonical("/proc/self/exe", error);
  return file.parent_path();
}

std::vector<std::filesystem::path> folders_to_search(const TransportSettings& settings) {
  if (!settings.components.empty()) return {settings.components};
  const auto own = own_folder();
  // Beside a library; of an installed program; of a Python extension in site-packages; in a build.
  return {own / "foreload",
          own / ".." / "lib" / "foreload",
          own / FORELOAD_LIB_FROM_BIN / "foreload",
          own / ".." / ".." / ".." / "foreload",
          own / ".." / "peers",
          own};
}

// For a program that pip installed: the package beside it. Python says it otherwise.
std::filesystem::path ucx_beside_program() {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(own_folder() / ".." / "lib", error)) {
    const auto folder = entry.path() / "site-packages" / "libucx" / "lib";
    if (entry.path().filename().string().starts_with("python3") &&
        std::filesystem::exists(folder, error))
      return folder;
  }
  return {};
}

// Modules that are libraries themselves: "ucx", "mpi_openmpi", "mpi_mpich".
Result<const foreload_component*> open_module(const std::string& name,
                                              const TransportSettings& settings) {
  const std::string file_name = fmt::format("libforeload_{}.so", name);
  std::string searched;
  for (const auto& folder : folders_to_search(settings)) {
    const auto file = folder / file_name;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) {
      searched += (searched.empty() ? "" : ", ") + folder.lexically_normal().string();
      continue;
    }
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return fail(ErrorKind::unreadable,
                  fmt::format("cannot load the {} transport from {}: {}. Install foreload again",
                              name, file.string(), ::dlerror()));
    const auto* component =
        static_cast<const foreload_component*>(::dlsym(library, "foreload_transport_component"));
    if (component == nullptr || component->border != FORELOAD_BORDER ||
        component->size != sizeof *component || std::strcmp(version(), component->built_for) != 0)
      return fail(ErrorKind::invalid,
                  fmt::format("cannot use the {} transport in {}: it belongs to another build of "
                              "foreload. Install both from the same package",
                              name, file.string()));
    return component;
  }
  return fail(ErrorKind::unreadable,
              fmt::format("the {} transport is not installed: no {} in {}. Install foreload again, "
                          "all of it",
                          name, file_name, searched));
}

// Once a process, as libraries are: a second call finds everything open.
Result<void> open_libraries(const foreload_component& component,
                            const TransportSettings& settings) {
  static std::mutex mutex;
  static auto& opened = *new std::set<const foreload_component*>;
  const std::scoped_lock lock(mutex);
  if (opened.contains(&component)) return {};
  TransportSettings with_package = settings;
  with_package.rendezvous = nullptr;
  if (with_package.ucx_package.empty()) with_package.ucx_package = ucx_beside_program();
  int outcome = FORELOAD_OK;
  border::Taken why;
  load_guarded(kForUcx, [&] {
    const foreload_settings given = border::give(with_package);
    outcome = component.open(&given, why.taker());
  });
  if (outcome != FORELOAD_OK) return tl::unexpected(border::error_of(outcome, why));
  opened.insert(&component);
  return {};
}

Result<const foreload_component*> component_of(const std::string& kind,
                                               const TransportSettings& settings) {
  if (kind == "mpi") {
    FORELOAD_TRY(const std::string module, peers::find_mpi_module());
    return open_module(module, settings);
  }
  if (kind != "ucx")
    return fail(ErrorKind::invalid,
                fmt::format("no transport is called {}; there are host, ucx and mpi",
                            kind.empty() ? "\"\"" : kind));
  FORELOAD_TRY(const foreload_component* component, open_module(kind, settings));
  FORELOAD_CHECK(open_libraries(*component, settings));
  return component;
}

}  // namespace

Result<std::unique_ptr<Transport>> load_transport(const std::string& kind,
                                                  const TransportSettings& settings,
                                                  TransportCalls calls) {
  if (kind == "host") return peers::make_host_transport(settings, std::move(calls));
  FORELOAD_TRY(const foreload_component* component, component_of(kind, settings));
  auto own_calls = std::make_unique<const TransportCalls>(std::move(calls));
  const foreload_calls given_calls = border::give(*own_calls);
  const foreload_settings given = border::give(settings);
  foreload_transport made{};
  border::Taken why;
  const int outcome = component->make(&given, &given_calls, &made, why.taker());
  if (outcome != FORELOAD_OK) return tl::unexpected(border::error_of(outcome, why));
  return border::take(made, std::move(own_calls));
}

Result<std::unique_ptr<Rendezvous>> load_rendezvous(const std::string& kind,
                                                    const TransportSettings& settings) {
  FORELOAD_TRY(const foreload_component* component, component_of(kind, settings));
  if (component->meet == nullptr)
    return fail(ErrorKind::invalid, fmt::format("the {} transport has no rendezvous", kind));
  const foreload_settings given = border::give(settings);
  foreload_rendezvous made{};
  border::Taken why;
  const int outcome = component->meet(&given, &made, why.taker());
  if (outcome != FORELOAD_OK) return tl::unexpected(border::error_of(outcome, why));
  return border::take(made);
}

Result<void> find_transport(const std::string& kind, const TransportSettings& settings) {
  if (kind == "host") return {};
  FORELOAD_CHECK(component_of(kind, settings));
  return {};
}

}  // namespace foreload
