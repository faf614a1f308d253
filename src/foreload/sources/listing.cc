// SPDX-License-Identifier: Apache-2.0
#include "foreload/sources/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "foreload/base/bytes.h"
#include "foreload/base/files.h"
#include "foreload/base/paths.h"
#include "foreload/base/text.h"
#include "foreload/sources/folder.h"
#include "foreload/sources/parallel_loop.h"
#include "foreload/sources/unsupported.h"

namespace foreload {
namespace {

struct Folder {
  std::string path;  // relative to the root; empty for the root itself
  const Folder* parent = nullptr;
  uint32_t label = 0;
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<std::string> files;    // those with a wanted extension
  std::vector<std::string> folders;  // sub-folders, links to folders included
  std::vector<std::string> unsure;   // links, and whatever the file system gave no type for
  uint64_t time = 0;                 // of its last change, before it was read
  Endings skipped;                   // of files without a wanted extension
};

uint64_t nanoseconds(int64_t seconds, uint64_t rest) {
  return static_cast<uint64_t>(seconds) * 1'000'000'000 + rest;
}

std::string join(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

class Lister {
 public:
  Lister(const std::filesystem::path& root, const ListingOptions& options)
      : root_(root.native()), options_(options) {
    for (const std::string& extension : options.extensions) {
      extensions_.push_back(lower_case(extension));
    }
  }
  ~Lister() {
    if (root_fd_ >= 0) ::close(root_fd_);
  }
  Lister(const Lister&) = delete;
  Lister& operator=(const Lister&) = delete;

  Result<Listing> list() {
    root_fd_ = ::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd_ < 0) {
      const int error = errno;
      std::string why = why_not_dataset(root_);
      if (!why.empty()) return fail(ErrorKind::invalid, std::move(why));
      return tl::unexpected(cannot_list(root_, error));
    }
    FORELOAD_CHECK(find_folders());
    Listing listing;
    listing.classes = folders_.front().folders;
    FORELOAD_CHECK(collect_files(listing));
    FORELOAD_CHECK(measure(listing.files));
    return listing;
  }

 private:
  Result<void> find_folders();
  Result<void> read_folders(size_t first, size_t last);
  std::optional<Error> read_folder(Folder& folder, const std::atomic<bool>& cancelled) const;
  Result<void> settle_unsure(size_t first, size_t last);
  Result<void> collect_files(Listing& listing);
  Result<void> measure(std::vector<ListedFile>& files) const;

  bool wanted(std::string_view name) const;
  int status_of(const std::string& path, unsigned mask, struct statx& status) const;
  Result<void> for_all(size_t count, const ParallelLoop::Item& item, size_t total_files) const;
  Error cannot_list(std::string_view folder, int error) const;
  tl::unexpected<Error> no_samples() const;
  std::string wanted_files() const;

  const std::string root_;
  const ListingOptions& options_;
  std::vector<std::string> extensions_;  // lower case
  int root_fd_ = -1;
  std::deque<Folder> folders_;  // the root first, then level by level; a deque keeps them in place
};

bool Lister::wanted(std::string_view name) const {
  if (extensions_.empty()) return true;
  const std::string lower = lower_case(name);
  return std::any_of(extensions_.begin(), extensions_.end(),
                     [&lower](const std::string& end) { return lower.ends_with(end); });
}

// 0 or errno.
int Lister::status_of(const std::string& path, unsigned mask, struct statx& status) const {
  const auto begin = std::chrono::steady_clock::now();
  const int error = ::statx(root_fd_, path.c_str(), 0, mask, &status) == 0 ? 0 : errno;
  if (options_.operations) {
    options_.operations->count(Operation::stat, std::chrono::steady_clock::now() - begin, 0,
                               error != 0);
  }
  return error;
}

Result<void> Lister::for_all(size_t count, const ParallelLoop::Item& item,
                             size_t total_files) const {
  const ParallelLoop::Tick tick = [this, total_files](size_t done) {
    return !options_.progress || options_.progress(total_files > 0 ? done : 0, total_files);
  };
  ParallelLoop loop(count, item, tick);
  Result<void> result = loop.run(options_.threads);
  if (!result && result.error().kind == ErrorKind::cancelled) {
    return fail(ErrorKind::cancelled, fmt::format("listing of folder {} was cancelled", root_));
  }
  return result;
}

Error Lister::cannot_list(std::string_view folder, int error) const {
  return {ErrorKind::unreadable,
          fmt::format("cannot list folder {}: {}; {}", folder, system_message(error),
                      folder == root_ ? "check the path" + did_you_mean(root_)
                                      : "make it readable, or remove it")};
}

std::string Lister::wanted_files() const {
  if (extensions_.empty()) return "files";
  return fmt::format("files that end in {}", fmt::join(extensions_, ", "));
}

// Level by level, so that all folders of a level can be read at once.
Result<void> Lister::find_folders() {
  folders_.emplace_back();
  for (size_t first = 0; first < folders_.size();) {
    const size_t last = folders_.size();
    FORELOAD_CHECK(read_folders(first, last));
    FORELOAD_CHECK(settle_unsure(first, last));
    for (size_t f = first; f < last; ++f) {
      Folder& folder = folders_[f];
      std::sort(folder.files.begin(), folder.files.end());
      std::sort(folder.folders.begin(), folder.folders.end());
      for (uint32_t i = 0; i < folder.folders.size(); ++i) {
        Folder& child = folders_.emplace_back();
        child.path = join(folder.path, folder.folders[i]);
        child.parent = &folder;
        child.label = f == 0 ? i : folder.label;
      }
    }
    first = last;
  }
  return {};
}

Result<void> Lister::read_folders(size_t first, size_t last) {
  return for_all(
      last - first,
      [this, first](size_t i, const std::atomic<bool>& cancelled) {
        const auto begin = std::chrono::steady_clock::now();
        std::optional<Error> error = read_folder(folders_[first + i], cancelled);
        if (options_.operations) {
          options_.operations->count(Operation::list, std::chrono::steady_clock::now() - begin, 0,
                                     error.has_value());
        }
        return error;
      },
      0);
}

std::optional<Error> Lister::read_folder(Folder& folder, const std::atomic<bool>& cancelled) const {
  const std::string full_path = folder.path.empty() ? root_ : join(root_, folder.path);
  const int fd = ::openat(root_fd_, folder.path.empty() ? "." : folder.path.c_str(),
                          O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return cannot_list(full_path, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd), ::closedir);
  struct stat status{};
  if (!directory || ::fstat(fd, &status) != 0) {
    const int error = errno;
    if (!directory) ::close(fd);
    return cannot_list(full_path, error);
  }
  folder.device = status.st_dev;
  folder.inode = status.st_ino;
  folder.time = nanoseconds(status.st_mtim.tv_sec, static_cast<uint64_t>(status.st_mtim.tv_nsec));
  for (const Folder* above = folder.parent; above != nullptr; above = above->parent) {
    if (above->device != folder.device || above->inode != folder.inode) continue;
    return Error{
        ErrorKind::invalid,
        fmt::format("cannot list folder {}: it leads back to {}, a folder above it, so the "
                    "listing would never end; remove the link",
                    full_path, above->path.empty() ? root_ : join(root_, above->path))};
  }
  while (!cancelled) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return cannot_list(full_path, errno);
      break;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (entry->d_type == DT_DIR) {
      folder.folders.emplace_back(name);
    } else if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
      folder.unsure.emplace_back(name);
    } else if (wanted(name)) {
      folder.files.emplace_back(name);
    } else {
      ++folder.skipped[ending_of(name)];
    }
  }
  return std::nullopt;
}

// A loop of its own because a folder may hold a million links, each of which costs a round trip.
Result<void> Lister::settle_unsure(size_t first, size_t last) {
  struct Question {
    Folder* folder;
    std::string* name;
    bool is_folder = false;
  };
  std::vector<Question> questions;
  for (size_t f = first; f < last; ++f) {
    for (std::string& name : folders_[f].unsure) questions.push_back({&folders_[f], &name});
  }
  if (questions.empty()) return {};
  FORELOAD_CHECK(for_all(
      questions.size(),
      [this, &questions](size_t i, const std::atomic<bool>&) -> std::optional<Error> {
        Question& question = questions[i];
        const std::string path = join(question.folder->path, *question.name);
        struct statx status{};
        const int error = status_of(path, STATX_TYPE, status);
        if (error == 0) {
          question.is_folder = S_ISDIR(status.stx_mode);
        } else if (error != ENOENT && error != ENOTDIR && error != ELOOP) {
          return cannot_list(join(root_, path), error);
        }  // otherwise a link to nothing, which is a file that cannot be read
        return std::nullopt;
      },
      0));
  for (Question& question : questions) {
    Folder& folder = *question.folder;
    if (question.is_folder) {
      folder.folders.push_back(std::move(*question.name));
    } else if (wanted(*question.name)) {
      folder.files.push_back(std::move(*question.name));
    } else {
      ++folder.skipped[ending_of(*question.name)];
    }
  }
  return {};
}

Result<void> Lister::collect_files(Listing& listing) {
  const bool flat = listing.classes.empty();
  std::vector<const Folder*> order;
  for (const Folder& folder : folders_) {
    if (flat || folder.parent != nullptr) order.push_back(&folder);
  }
  // By label first: class "a" comes before class "a-b", yet "a-b" sorts before "a/x".
  std::sort(order.begin(), order.end(), [](const Folder* a, const Folder* b) {
    return std::tie(a->label, a->path) < std::tie(b->label, b->path);
  });
  std::vector<bool> has_files(listing.classes.size());
  for (const Folder* folder : order) {
    for (const std::string& name : folder->files) {
      listing.files.push_back({join(folder->path, name), 0, 0, folder->label});
    }
    if (!flat && !folder->files.empty()) has_files[folder->label] = true;
  }
  if (listing.files.empty()) return no_samples();
  const auto empty = std::find(has_files.begin(), has_files.end(), false);
  if (empty != has_files.end()) {
    const auto others = std::count(empty + 1, has_files.end(), false);
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot use folder {}: its class folder {}{} holds no {}; remove it, "
                    "or give the extensions to take",
                    root_, listing.classes[static_cast<size_t>(empty - has_files.begin())],
                    others > 0 ? fmt::format(" (like {} others)", others) : "", wanted_files()));
  }
  for (Folder& folder : folders_) listing.folders.push_back({std::move(folder.path), folder.time});
  folders_.clear();
  return {};
}

tl::unexpected<Error> Lister::no_samples() const {
  Endings endings;
  for (const Folder& folder : folders_) {
    for (const auto& [ending, count] : folder.skipped) endings[ending] += count;
  }
  const size_t beside = folders_.front().files.size();
  if (beside > 0)
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot use folder {}: its {} sub-folders hold no {}, and the {} in "
                    "the folder itself count only where it has no sub-folders; remove the "
                    "sub-folders, or put the files into one folder per class",
                    root_, folders_.front().folders.size(), wanted_files(), format_count(beside)));
  std::string why = why_not_dataset(root_, endings);
  if (!why.empty()) return fail(ErrorKind::invalid, std::move(why));
  return fail(ErrorKind::invalid,
              fmt::format("cannot use folder {}: it holds no {}, but {}; check the path, or say "
                          "which files are samples (--extensions, extensions=)",
                          root_, wanted_files(), most_frequent(endings)));
}

Result<void> Lister::measure(std::vector<ListedFile>& files) const {
  return for_all(
      files.size(),
      [this, &files](size_t i, const std::atomic<bool>&) -> std::optional<Error> {
        ListedFile& file = files[i];
        struct statx status{};
        const int error = status_of(file.name, STATX_TYPE | STATX_SIZE | STATX_MTIME, status);
        if (error == 0 || leads_nowhere(root_fd_, file.name, error)) {
          note_status(error, status, file);
          return std::nullopt;
        }
        return Error{ErrorKind::unreadable,
                     fmt::format("cannot stat file {}: {}; make it readable, or remove it",
                                 join(root_, file.name), system_message(error))};
      },
      files.size());
}

}  // namespace

void note_status(int error, const struct statx& status, ListedFile& file) {
  if (error != 0) {
    file.version = kLinkToNothing;
  } else if (!S_ISREG(status.stx_mode)) {
    file.version = kNotAFile;
  } else {
    file.size = status.stx_size;
    file.version = file_version(file.size, status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec);
  }
}

bool leads_nowhere(int folder, const std::string& name, int error) {
  if (error != ENOENT && error != ELOOP && error != ENOTDIR) return false;
  struct statx status{};
  return ::statx(folder, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) == 0 &&
         S_ISLNK(status.stx_mode);
}

const std::vector<std::string>& image_extensions() {
  static const std::vector<std::string> extensions{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                   ".pgm", ".tif",  ".tiff", ".webp"};
  return extensions;
}

Result<std::optional<std::string>> changed_folder(const std::filesystem::path& root,
                                                  const std::vector<ListedFolder>& folders,
                                                  const ListingOptions& options) {
  constexpr size_t kMost = 10'000;
  const size_t count = std::min(folders.size(), kMost);
  std::atomic<size_t> first = SIZE_MAX;  // of those that changed
  const ParallelLoop::Item item = [&](size_t i, const std::atomic<bool>&) -> std::optional<Error> {
    const size_t number = i * folders.size() / count;
    const ListedFolder& folder = folders[number];
    const std::string path = join(root.native(), folder.name);
    const auto begin = std::chrono::steady_clock::now();
    struct statx status{};
    const int error =
        ::statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE | STATX_MTIME, &status) == 0 ? 0 : errno;
    if (options.operations) {
      options.operations->count(Operation::stat, std::chrono::steady_clock::now() - begin, 0,
                                error != 0);
    }
    // Without the root nothing can be listed again.
    if (error != 0 && (folder.name.empty() || (error != ENOENT && error != ENOTDIR)))
      return Error{ErrorKind::unreadable, fmt::format("cannot see whether folder {} changed: {}",
                                                      path, system_message(error))};
    if (error == 0 && S_ISDIR(status.stx_mode) &&
        nanoseconds(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec) == folder.time)
      return std::nullopt;
    size_t least = first;
    while (number < least && !first.compare_exchange_weak(least, number)) continue;
    return std::nullopt;
  };
  const ParallelLoop::Tick tick = [&options](size_t) {
    return !options.progress || options.progress(0, 0);
  };
  ParallelLoop loop(count, item, tick);
  Result<void> looked = loop.run(options.threads);
  if (!looked && looked.error().kind == ErrorKind::cancelled)
    return fail(ErrorKind::cancelled,
                fmt::format("listing of folder {} was cancelled", root.native()));
  if (!looked) return tl::unexpected(std::move(looked).error());
  if (first == SIZE_MAX) return std::nullopt;
  return folders[first].name;
}

Result<Listing> list_folder(const std::filesystem::path& root, const ListingOptions& options) {
  return Lister(root, options).list();
}

}  // namespace foreload
