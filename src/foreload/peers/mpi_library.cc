// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/shared_library.h"

namespace foreload::peers {
namespace {

// Both have the same form in every MPI, and may be called before MPI_Init.
using GetLibraryVersion = int(char* text, int* length);
using GetInitialized = int(int* yes);
constexpr size_t kMostVersionBytes = size_t{16} << 10;  // MPICH's limit is half of it

// Files of this process that may be MPI libraries; those of MPI 5's own ABI are none of ours.
std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        const std::string file = info->dlpi_name != nullptr ? info->dlpi_name : "";
        const std::string name = std::filesystem::path(file).filename().string();
        if (name.starts_with("libmpi") && !name.starts_with("libmpi_abi"))
          static_cast<std::vector<std::string>*>(into)->push_back(file);
        return 0;
      },
      &files);
  return files;
}

struct Found {
  std::string file;
  std::string version;
  bool initialized = false;
};

std::optional<Found> ask(void* library) {
  GetLibraryVersion* version = nullptr;
  GetInitialized* initialized = nullptr;
  if (!look_up(::dlsym(library, "MPI_Get_library_version"), version) ||
      !look_up(::dlsym(library, "MPI_Initialized"), initialized))
    return std::nullopt;
  Found found;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(version), &info) != 0 && info.dli_fname != nullptr)
    found.file = info.dli_fname;
  std::string text(kMostVersionBytes, '\0');
  int length = 0, yes = 0;
  version(text.data(), &length);
  found.version = text.c_str();
  initialized(&yes);
  found.initialized = yes != 0;
  return found;
}

// The one that MPI_Init was called in, if there are several.
std::optional<Found> find_loaded() {
  std::optional<Found> best;
  for (const std::string& file : loaded_files()) {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    auto found = library != nullptr ? ask(library) : std::nullopt;
    if (found && (!best || (found->initialized && !best->initialized))) best = std::move(found);
  }
  if (best) return best;
  best = ask(RTLD_DEFAULT);
  if (best) best->file.clear();
  return best;
}

std::vector<const char*> names_to_try() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return {"libmpi.so.40"};
  if (std::getenv("PMI_SIZE") != nullptr) return {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40"};
  return {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
}

}  // namespace

std::string module_for_mpi(const std::string& library_version) {
  const auto says = [&](std::string_view name) {
    return library_version.find(name) != std::string::npos;
  };
  if (says("Open MPI") || says("Spectrum MPI")) return "mpi_openmpi";
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH", "ParaStation"})
    if (says(name)) return "mpi_mpich";
  return "";
}

Result<std::string> find_mpi_module() {
  auto found = find_loaded();
  std::string why;
  if (!found) {
    for (const char* name : names_to_try()) {
      void* library = nullptr;
      // MPICH's UCX warns on the standard output of messages that nobody waits for at the end.
      load_guarded({"UCX_LOG_LEVEL=error"},
                   [&] { library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL); });
      if (library != nullptr && (found = ask(library))) break;
      if (library == nullptr) why += (why.empty() ? "" : "; ") + std::string(::dlerror());
    }
  }
  if (!found)
    return fail(ErrorKind::unreadable,
                fmt::format("the mpi transport found no MPI library: {}. Install Open MPI or MPICH "
                            "(Debian, Ubuntu: apt-get install libopenmpi3 or libmpich12)",
                            why));
  std::string module = module_for_mpi(found->version);
  if (module.empty())
    return fail(ErrorKind::invalid,
                fmt::format("the mpi transport does not know the MPI library {}, which says: {}. "
                            "Use Open MPI, or one with MPICH's ABI, or the ucx transport",
                            found->file, found->version.substr(0, found->version.find('\n'))));
  // One that Python has loaded for an extension alone is visible to nobody else.
  if (!found->file.empty()) ::dlopen(found->file.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  return module;
}

}  // namespace foreload::peers
