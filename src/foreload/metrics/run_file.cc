// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/files.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

// Parsed and written again, so that a record is one line whatever it was.
Result<Json> parse_object(const std::filesystem::path& file, std::string_view text) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot write to run file {}: the record of {} bytes is not a JSON object",
                    file.native(), text.size()));
  }
  return object;
}

Error cannot_write(const std::filesystem::path& file, int error) {
  return {ErrorKind::unreadable,
          fmt::format("cannot write run file {}: {}. Check that its folder exists, is writable and "
                      "has space left.",
                      file.native(), system_message(error))};
}

}  // namespace

Result<RunFile> RunFile::create(const std::filesystem::path& file, std::string_view header) {
  FORELOAD_TRY(const Json given, parse_object(file, header));
  Json line{{"foreload_run", kRunFileVersion}};
  line.update(given);
  line["foreload_run"] = kRunFileVersion;
  Descriptor descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor) return tl::unexpected(cannot_write(file, errno));
  // Held until the run ends. File systems without locks have none; then nobody is stopped.
  if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot write run file {}: another run is writing it; close its "
                            "loader, or give each run a file of its own",
                            file.native()));
  }
  // EINVAL: a pipe or terminal, which has nothing to cut off.
  if (::ftruncate(descriptor.get(), 0) != 0 && errno != EINVAL)
    return tl::unexpected(cannot_write(file, errno));
  RunFile run(std::move(descriptor), file);
  FORELOAD_CHECK(run.write_line(line.dump(-1, ' ', false, Json::error_handler_t::replace), true));
  return run;
}

Result<void> RunFile::append(std::string_view object, bool sync) {
  FORELOAD_TRY(const Json line, parse_object(file_, object));
  return write_line(line.dump(-1, ' ', false, Json::error_handler_t::replace), sync);
}

Result<void> RunFile::write_line(std::string line, bool sync) {
  line += '\n';
  const off_t before = ::lseek(descriptor_.get(), 0, SEEK_END);
  int error = write_all(descriptor_.get(), std::as_bytes(std::span(line)));
  if (error != 0 && before >= 0) {
    // Half a line would spoil the next one too. Where this fails (a device), nothing can be done.
    [[maybe_unused]] const int ignored = ::ftruncate(descriptor_.get(), before);
  }
  // EINVAL: a pipe or terminal, which cannot be synced.
  if (error == 0 && sync && ::fdatasync(descriptor_.get()) != 0 && errno != EINVAL) error = errno;
  if (error != 0) return tl::unexpected(cannot_write(file_, error));
  return {};
}

}  // namespace foreload
