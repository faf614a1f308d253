// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/paths.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/files.h"
#include "foreload/base/text.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

// Empty: nobody knows.
std::string home_of(const std::string& user) {
  const char* home = user.empty() ? std::getenv("HOME") : nullptr;
  if (home != nullptr && *home != '\0') return home;
  std::array<char, 16'384> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (user.empty())
    ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  else
    ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? "" : found->pw_dir;
}

fs::path parent_of(const fs::path& path) {
  // "folder/" has an empty name at its end.
  const fs::path named = path.has_filename() ? path : path.parent_path();
  return named.has_parent_path() ? named.parent_path() : fs::path(".");
}

}  // namespace

fs::path expand_home(const fs::path& path) {
  const std::string& text = path.native();
  if (!text.starts_with('~')) return path;
  const size_t end = std::min(text.find('/'), text.size());
  const std::string home = home_of(text.substr(1, end - 1));
  return home.empty() ? path : fs::path(home + text.substr(end));
}

std::string where_it_ends(const fs::path& path) {
  std::error_code error;
  fs::path missing = path;
  fs::path folder = path;
  while (!fs::exists(folder, error)) {
    missing = folder;
    const fs::path above = parent_of(folder);
    if (above == folder) return "";
    folder = above;
  }
  if (folder == path) return "";
  constexpr size_t kMostNames = 10'000;
  std::vector<std::string> names;
  for (fs::directory_iterator i(folder, error), end;
       !error && i != end && names.size() < kMostNames; i.increment(error))
    names.push_back(i->path().filename().native());
  const fs::path last = missing.has_filename() ? missing : missing.parent_path();
  const std::string near = nearest(last.filename().native(), names);
  if (!near.empty())
    return fmt::format("; did you mean {}?",
                       (folder == "." ? fs::path(near) : folder / near).native());
  return fmt::format("; the nearest folder that exists is {}",
                     folder == "." ? fs::current_path(error).native() : folder.native());
}

Result<void> check_output_file(std::string_view what, const fs::path& file) {
  const auto refuse = [&](std::string_view why, std::string_view remedy) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: cannot write {}: {}; {}", what, file.native(), why, remedy));
  };
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status)) return refuse("it is a folder", "name a file in it");
  const fs::path folder = parent_of(file);
  if (!fs::exists(folder, error))
    return refuse(fmt::format("the folder {} does not exist", folder.native()),
                  "make it, or correct the path" + where_it_ends(folder));
  if (!fs::is_directory(folder, error))
    return refuse(fmt::format("{} is not a folder", folder.native()), "correct the path");
  // A device like /dev/null is written to, not replaced.
  const bool device = fs::exists(status) && !fs::is_regular_file(status);
  const fs::path& written = device ? file : folder;
  if (::faccessat(AT_FDCWD, written.c_str(), device ? W_OK : W_OK | X_OK, AT_EACCESS) != 0)
    return refuse(fmt::format("{}: {}", written.native(), system_message(errno)),
                  "choose a folder that may be written to");
  return {};
}

Result<void> check_new_folder(std::string_view what, const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::exists(status)) {
    if (fs::is_directory(status)) return {};
    return fail(ErrorKind::invalid,
                fmt::format("{}: cannot use folder {}: it is a file; name a folder", what,
                            folder.native()));
  }
  const fs::path parent = parent_of(folder);
  if (fs::exists(parent, error)) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("{}: cannot make folder {}: {}, which it would be in, does not exist; "
                  "correct the path, or make it with mkdir -p {}{}",
                  what, folder.native(), parent.native(), parent.native(), where_it_ends(parent)));
}

}  // namespace foreload
