// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/file_store.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/files.h"
#include "foreload/base/new_file.h"
#include "foreload/base/random.h"
#include "foreload/stores/chosen_source.h"
#include "foreload/stores/folder_files.h"
#include "foreload/stores/thread_engine.h"
#include "foreload/stores/uring_engine.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

// Descriptors that reads leave to everything else in the process, where the limit is not tiny.
constexpr rlim_t kReserve = 64;
constexpr rlim_t kMostInFlight = 4096;
constexpr rlim_t kMostOpenFolders = 1024;

// Descriptors that reading may take.
rlim_t allowed_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kMostInFlight + kMostOpenFolders;
  return limit.rlim_cur - std::min(limit.rlim_cur / 2, kReserve);
}

// At most a quarter of them are for folders.
size_t allowed_folders(const SourceSettings& settings, bool local) {
  const rlim_t wanted = settings.open_folders.value_or(local ? 0 : kMostOpenFolders);
  return std::min({wanted, kMostOpenFolders, allowed_descriptors() / 4});
}

unsigned allowed_in_flight(unsigned wanted, size_t folders) {
  const rlim_t allowed = std::min(kMostInFlight, allowed_descriptors() - folders);
  return static_cast<unsigned>(std::clamp<rlim_t>(wanted, 1, std::max<rlim_t>(allowed, 1)));
}

// While both engines are tried, twice as many files may be open.
bool both_may_read(const FolderFiles& files) {
  return 2 * rlim_t{files.most_in_flight} <= allowed_descriptors();
}

Result<std::unique_ptr<Source>> start_engine(IoEngine engine,
                                             const std::shared_ptr<const FolderFiles>& files,
                                             Source::Answered answered) {
  const Candidates::Make threads = [&files](Source::Answered heard) {
    return start_thread_engine(files, std::move(heard));
  };
  const Candidates::Make uring = [&files](const Source::Answered& heard) {
    return start_uring_engine(files, heard);
  };
  if (engine == IoEngine::automatic && !files->local) {
    // Threads of the program do what threads of the ring would do, with fewer requests on file
    // systems that are asked for the size of a file before each read.
    if (both_may_read(*files))
      return start_chosen_source({threads, uring, files->most_in_flight}, answered);
    return threads(std::move(answered));
  }
  if (engine != IoEngine::threads) {
    Result<std::unique_ptr<Source>> source = uring(answered);
    if (source || engine == IoEngine::io_uring) return source;
  }
  return threads(std::move(answered));
}

class FileSink final : public Sink {
 public:
  explicit FileSink(fs::path file) : file_(std::move(file)), content_(file_) {}

  Result<void> create() { return done(content_.create()); }
  Result<void> write(std::span<const std::byte> bytes) override {
    return done(content_.write(bytes));
  }
  Result<void> commit() override { return done(content_.commit()); }
  void abort() override { content_.abort(); }

 private:
  Result<void> done(int error) const {
    if (error == 0) return {};
    return fail(ErrorKind::unreadable,
                fmt::format("cannot write {}: {}; check that its folder is writable and has room",
                            file_.native(), system_message(error)));
  }

  const fs::path file_;
  NewFile content_;
};

}  // namespace

uint64_t file_version(uint64_t size, int64_t mtime_seconds, uint32_t mtime_nanoseconds) {
  const uint64_t nanoseconds =
      static_cast<uint64_t>(mtime_seconds) * 1'000'000'000 + mtime_nanoseconds;
  return mix64(mix64(size) ^ nanoseconds);
}

Result<std::unique_ptr<Source>> FileStore::open(SourceSettings settings,
                                                Source::Answered answered) const {
  const std::string name = where();
  if (!settings.objects) {
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot read from folder {}: no catalog of its objects was given", name));
  }
  Descriptor root(::open(name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) {
    return fail(ErrorKind::unreadable, fmt::format("cannot read from folder {}: {}; check the path",
                                                   name, std::generic_category().message(errno)));
  }
  const bool local = is_local(root.get());
  const size_t folders = allowed_folders(settings, local);
  const auto files = std::make_shared<const FolderFiles>(FolderFiles{
      std::move(root), name, std::move(settings.objects), std::move(settings.operations),
      settings.drop_page_cache, allowed_in_flight(settings.most_in_flight, folders),
      kOpenFlags | (settings.waits_for_pipes ? 0 : O_NONBLOCK), local,
      std::make_shared<OpenFolders>(folders)});
  return start_engine(settings.engine, files, std::move(answered));
}

std::string FileStore::uri() const {
  std::error_code error;
  fs::path whole = fs::canonical(root_, error);
  if (error) whole = fs::absolute(root_, error).lexically_normal();
  return "file://" + whole.native();
}

Result<std::optional<std::string>> FileStore::first_bytes(size_t most) const {
  std::error_code ignored;
  const auto type = fs::status(root_, ignored).type();
  if (type == fs::file_type::not_found || type == fs::file_type::directory) return std::nullopt;
  if (type != fs::file_type::regular && type != fs::file_type::none &&
      type != fs::file_type::unknown) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot read {} as a data set: it is a {}; give a folder or a file",
                            where(), type == fs::file_type::fifo ? "named pipe" : "device"));
  }
  std::string start;
  if (const int error = read_file(root_, start, most))
    return fail(ErrorKind::unreadable, fmt::format("cannot read data set {}: {}; check the path",
                                                   where(), system_message(error)));
  return start;
}

Result<std::unique_ptr<Sink>> FileStore::create(std::string_view name) const {
  FORELOAD_CHECK(check_name(name));
  const fs::path file = root_ / name;
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  auto sink = std::make_unique<FileSink>(file);
  FORELOAD_CHECK(sink->create());
  return sink;
}

Result<void> FileStore::remove(std::string_view name) const {
  FORELOAD_CHECK(check_name(name));
  const fs::path file = root_ / name;
  if (::unlink(file.c_str()) == 0) return {};
  return fail(ErrorKind::unreadable, fmt::format("cannot remove {}: {}; check the name",
                                                 file.native(), system_message(errno)));
}

}  // namespace foreload
