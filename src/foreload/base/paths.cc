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

// The first of them; no more than can be looked at in a moment.
std::vector<std::string> names_in(const fs::path& folder) {
  constexpr size_t kMostNames = 10'000;
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator i(folder, error), end;
       !error && i != end && names.size() < kMostNames; i.increment(error))
    names.push_back(i->path().filename().native());
  return names;
}

}  // namespace

fs::path expand_home(const fs::path& path) {
  const std::string& text = path.native();
  if (!text.starts_with('~')) return path;
  const size_t end = std::min(text.find('/'), text.size());
  const std::string home = home_of(text.substr(1, end - 1));
  return home.empty() ? path : fs::path(home + text.substr(end));
}

std::string did_you_mean(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) return "";
  fs::path meant;
  for (const fs::path& name : path) {
    if (name.empty() || fs::exists(meant / name, error)) {
      meant /= name;
      continue;
    }
    const std::string near = nearest(name.native(), names_in(meant.empty() ? "." : meant));
    if (near.empty()) return "";
    meant /= near;
  }
  return fs::exists(meant, error) ? fmt::format("; did you mean {}?", meant.native()) : "";
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
                  "make it, or correct the path" + did_you_mean(folder));
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
                  what, folder.native(), parent.native(), parent.native(), did_you_mean(parent)));
}

}  // namespace foreload
