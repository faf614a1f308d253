// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/base/version.h"
#include "foreload/peers/component.h"
#include "foreload/peers/transport.h"

namespace foreload {
namespace {

struct KnownKind {
  const char* name;
  const char* file;
  // Settings that its libraries read from the environment, and only there, while they are loaded.
  std::vector<std::string> environment;
  const char* remedy;
};
const KnownKind kKinds[] = {
    {"ucx",
     "libforeload_ucx.so",
     // No patched allocation functions, no signal handlers, no output, no file system of its own.
     {"UCX_MEM_EVENTS=n", "UCX_ERROR_SIGNALS=", "UCX_HANDLE_ERRORS=none", "UCX_LOG_LEVEL=fatal",
      "UCX_VFS_ENABLE=n", "UCX_WARN_UNUSED_ENV_VARS=n"},
     "Install UCX and OpenSSL (Debian, Ubuntu: apt-get install libucx0 libssl3), and a foreload "
     "that "
     "was built with them"},
    {"mpi",
     "libforeload_mpi.so",
     {},
     "Install Open MPI (Debian, Ubuntu: apt-get install libopenmpi3 openmpi-bin), and a foreload "
     "that "
     "was built with it"},
};

// Libraries install signal handlers while they are loaded (UCX does, for crashes). The signals
// belong to the program: this puts back what was there.
class SignalHandlersKept {
 public:
  SignalHandlersKept() {
    for (int s = 1; s < kSignals; ++s) known_[s] = ::sigaction(s, nullptr, &before_[s]) == 0;
  }
  ~SignalHandlersKept() {
    for (int s = 1; s < kSignals; ++s) {
      struct sigaction now{};
      if (!known_[s] || ::sigaction(s, nullptr, &now) != 0) continue;
      if (now.sa_sigaction != before_[s].sa_sigaction) ::sigaction(s, &before_[s], nullptr);
    }
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  static constexpr int kSignals = 65;
  std::array<struct sigaction, kSignals> before_{};
  std::array<bool, kSignals> known_{};
};

// While it lives, the environment has these variables besides its own; what the user set stays. The
// array is exchanged as a whole and kept for ever, so that other threads may call getenv()
// meanwhile. REQUIRES: one at a time.
class EnvironmentWith {
 public:
  explicit EnvironmentWith(const std::vector<std::string>& more) : before_(environ) {
    static auto& kept = *new std::list<std::vector<char*>>;
    std::vector<char*>& variables = kept.emplace_back();
    for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
      variables.push_back(*each);
    }
    for (const std::string& variable : more) {
      const std::string name = variable.substr(0, variable.find('='));
      if (std::getenv(name.c_str()) == nullptr) variables.push_back(::strdup(variable.c_str()));
    }
    variables.push_back(nullptr);
    environ = variables.data();
  }
  ~EnvironmentWith() { environ = before_; }
  EnvironmentWith(const EnvironmentWith&) = delete;
  EnvironmentWith& operator=(const EnvironmentWith&) = delete;

 private:
  char** const before_;
};

// The handle, or null and dlerror() says why. Never closed: the libraries behind it do not like to
// be loaded twice.
void* load_library(const KnownKind& kind, const std::filesystem::path& file) {
  if (void* const loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD))
    return loaded;
  // What follows is changed for the process and put back, which only one thread can do at a time.
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  const SignalsBlocked in_threads_it_starts;
  const SignalHandlersKept while_it_loads;
  const EnvironmentWith settings_of_libraries(kind.environment);
  return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

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

Result<const TransportComponent*> open_component(const KnownKind& kind,
                                                 const TransportSettings& settings) {
  std::string searched;
  for (const auto& folder : folders_to_search(settings)) {
    const auto file = folder / kind.file;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) {
      searched += (searched.empty() ? "" : ", ") + folder.lexically_normal().string();
      continue;
    }
    void* const library = load_library(kind, file);
    if (library == nullptr) {
      return fail(ErrorKind::unreadable,
                  fmt::format("cannot load the {} transport from {}: {}. {}", kind.name,
                              file.string(), ::dlerror(), kind.remedy));
    }
    const auto* component =
        static_cast<const TransportComponent*>(::dlsym(library, kComponentName));
    if (component == nullptr || component->border != kComponentBorder ||
        std::strcmp(version(), component->built_for) != 0) {
      return fail(ErrorKind::invalid,
                  fmt::format("cannot use the {} transport in {}: it belongs to another build of "
                              "foreload. Install both from the same package",
                              kind.name, file.string()));
    }
    return component;
  }
  return fail(ErrorKind::unreadable,
              fmt::format("the {} transport is not installed: no {} in {}. {}", kind.name,
                          kind.file, searched, kind.remedy));
}

Result<const TransportComponent*> component_of(const std::string& kind,
                                               const TransportSettings& settings) {
  for (const KnownKind& known : kKinds)
    if (kind == known.name) return open_component(known, settings);
  return fail(ErrorKind::invalid, fmt::format("no transport is called {}; there are ucx and mpi",
                                              kind.empty() ? "\"\"" : kind));
}

}  // namespace

Result<std::unique_ptr<Transport>> load_transport(const std::string& kind,
                                                  const TransportSettings& settings,
                                                  TransportCalls calls) {
  FORELOAD_TRY(const TransportComponent* component, component_of(kind, settings));
  return component->make(settings, std::move(calls));
}

Result<std::unique_ptr<Rendezvous>> load_rendezvous(const std::string& kind,
                                                    const TransportSettings& settings) {
  FORELOAD_TRY(const TransportComponent* component, component_of(kind, settings));
  if (component->meet != nullptr) return component->meet(settings);
  return fail(ErrorKind::invalid, fmt::format("the {} transport has no rendezvous", kind));
}

Result<void> find_transport(const std::string& kind) {
  FORELOAD_CHECK(component_of(kind, {}));
  return {};
}

}  // namespace foreload
