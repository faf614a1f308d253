// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "foreload/base/descriptor.h"
#include "foreload/base/files.h"

namespace foreload {
namespace {

constexpr char kRemedy[] = "Make one with `openssl rand -hex 32`";

std::filesystem::path folder_of_user() {
  std::error_code error;
  const auto folder_in = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value != nullptr && *value == '/' ? value : "";
  };
  const auto runtime = folder_in("XDG_RUNTIME_DIR");
  if (!runtime.empty() && std::filesystem::is_directory(runtime, error)) return runtime;
  if (const auto cache = folder_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "foreload";
  const auto home = folder_in("HOME");
  return home.empty() ? home : home / ".cache" / "foreload";
}

// Appears whole, and only if no other rank was faster.
Result<void> write_new_secret(const std::filesystem::path& folder,
                              const std::filesystem::path& file) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  FORELOAD_TRY(const JobSecret secret, draw_secret());
  const std::string text = secret_text(secret) + "\n";
  std::string name = (folder / ".foreload-secret-XXXXXX").string();
  Descriptor made(::mkostemp(name.data(), O_CLOEXEC));  // of mode 0600
  int error = made ? write_all(made.get(), std::as_bytes(std::span(text))) : errno;
  made.close();
  if (error == 0 && ::link(name.c_str(), file.c_str()) != 0 && errno != EEXIST) error = errno;
  ::unlink(name.c_str());
  if (error == 0) return {};
  return fail(ErrorKind::unreadable,
              fmt::format("cannot keep the secret of this user's jobs in {}: {}. Set "
                          "FORELOAD_SECRET to the same on all ranks",
                          file.string(), std::strerror(error)));
}

}  // namespace

Result<JobSecret> parse_secret(std::string_view text, const std::string& where) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  text = begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  JobSecret secret{};
  bool good = text.size() == 2 * secret.size();
  for (size_t i = 0; good && i < secret.size(); ++i) {
    const char* const end = text.data() + 2 * i + 2;
    uint8_t byte = 0;
    good = std::from_chars(end - 2, end, byte, 16).ptr == end;
    secret[i] = std::byte{byte};
  }
  if (good && secret != JobSecret{}) return secret;
  return fail(
      ErrorKind::invalid,
      fmt::format("the job's secret in {} is not 64 hexadecimal digits. {}", where, kRemedy));
}

Result<JobSecret> read_secret(const std::filesystem::path& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat about{};
  if (!in || ::fstat(in.get(), &about) != 0) {
    return fail(
        ErrorKind::unreadable,
        fmt::format("cannot read the job's secret from {}: {}. Check the path and its permissions",
                    file.string(), std::strerror(errno)));
  }
  char text[256] = "";
  const bool regular = S_ISREG(about.st_mode);
  const ssize_t got = regular ? ::read(in.get(), text, sizeof text) : 0;
  if (!regular || about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return fail(ErrorKind::invalid,
                fmt::format("the file of the job's secret, {}, can be used by others: it must be a "
                            "plain file of this user with mode 0600. Run chmod 600 {}, and change "
                            "the secret if others may have seen it",
                            file.string(), file.string()));
  }
  return parse_secret({text, static_cast<size_t>(got < 0 ? 0 : got)}, file.string());
}

Result<JobSecret> secret_from_environment() {
  const char* const text = std::getenv("FORELOAD_SECRET");
  if (text != nullptr && *text != '\0') return parse_secret(text, "FORELOAD_SECRET");
  const char* const file = std::getenv("FORELOAD_SECRET_FILE");
  if (file != nullptr && *file != '\0') return read_secret(file);
  return fail(
      ErrorKind::invalid,
      fmt::format("ranks that talk over UCX need a secret of the job: set FORELOAD_SECRET, or "
                  "FORELOAD_SECRET_FILE to a file of mode 0600, the same on all ranks. {}",
                  kRemedy));
}

Result<JobSecret> secret_of_user() {
  const auto folder = folder_of_user();
  if (folder.empty())
    return fail(ErrorKind::invalid,
                "cannot keep a secret for this user's jobs: neither XDG_RUNTIME_DIR nor HOME is "
                "set. Set FORELOAD_SECRET to the same on all ranks");
  const auto file = folder / "foreload-secret";
  if (::access(file.c_str(), F_OK) != 0) FORELOAD_CHECK(write_new_secret(folder, file));
  return read_secret(file);
}

Result<JobSecret> draw_secret() {
  JobSecret secret;
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot draw a secret: {}", std::strerror(errno)));
  }
  return secret;
}

std::string secret_text(const JobSecret& secret) {
  std::string text;
  for (const std::byte byte : secret) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

}  // namespace foreload
