// SPDX-License-Identifier: Apache-2.0
//
// The side of a file store that finds and measures files. Folders are listed and files are stat'ed
// in parallel, because on a shared file system both are latency. There a file is asked about
// relative to its folder, which stays open meanwhile: by its path each folder above it would cost a
// request more.
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
#include <utility>

#include <fmt/format.h>

#include "foreload/base/files.h"
#include "foreload/base/paths.h"
#include "foreload/stores/file_store.h"
#include "foreload/stores/folder_files.h"
#include "foreload/stores/parallel_loop.h"

namespace foreload {
namespace {

struct Folder {
  std::string path;  // relative to the root; empty for the root itself
  const Folder* parent = nullptr;
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<StoredObject> files;
  std::vector<std::string> folders;  // sub-folders, links to folders included
  std::vector<std::string> unsure;   // links, and whatever the file system gave no type for
  uint64_t time = 0;                 // of its last change, before it was read
};

uint64_t nanoseconds(int64_t seconds, uint64_t rest) {
  return static_cast<uint64_t>(seconds) * 1'000'000'000 + rest;
}

std::string join(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

// Asks about a path below an open folder. 0 or errno.
int status_of(int folder, const std::string& path, unsigned mask, const StoreCall& call,
              struct statx& status) {
  const auto begin = std::chrono::steady_clock::now();
  const int error = ::statx(folder, path.c_str(), 0, mask, &status) == 0 ? 0 : errno;
  count_operation(call.operations, Operation::stat, begin, 0, error != 0);
  return error;
}

// Takes over what statx said about a file, or that it is a link that leads nowhere (`error`).
void note_status(int error, const struct statx& status, StoredObject& file) {
  file.size = 0;
  if (error != 0) {
    file.version = kLinkToNothing;
  } else if (!S_ISREG(status.stx_mode)) {
    file.version = kNotAFile;
  } else {
    file.size = status.stx_size;
    file.version = file_version(file.size, status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec);
  }
}

// The k-th of `count` items where each follows one that is far from it.
class FarApart {
 public:
  explicit FarApart(size_t count) : row_((count + kRows - 1) / kRows) {}

  size_t rounded_up() const { return kRows * row_; }  // k is below; items may be beyond the count
  size_t item(size_t k) const { return k % kRows * row_ + k / kRows; }

 private:
  static constexpr size_t kRows = 64;
  const size_t row_;
};

// Asks about files below a folder, each relative to its own folder where asking for names costs a
// request. Any thread may ask.
class FileQuestions {
 public:
  FileQuestions(int root, const StoreCall& call) : root_(root), call_(call) {}

  bool by_folder() const { return folders_.used(); }
  // 0 or errno.
  int ask(const std::string& name, struct statx& status) {
    const std::string_view folder_name = folder_of(name);
    if (!folder_name.empty() && !name.ends_with('/') && folders_.used()) {
      const OpenFolders::Folder folder = open_folder(folder_name);
      const std::string own_name = name.substr(folder_name.size() + 1);
      if (folder && status_of(folder->get(), own_name, kMask, call_, status) == 0) return 0;
    }  // what fails is asked again by its path: another folder may have the name by now
    return status_of(root_, name, kMask, call_, status);
  }

 private:
  static constexpr unsigned kMask = STATX_TYPE | STATX_SIZE | STATX_MTIME;
  static constexpr unsigned kMostFolders = 64;  // files are asked about folder by folder

  // Null where it cannot be opened; then the path of the file says why.
  OpenFolders::Folder open_folder(std::string_view name) {
    const auto now = std::chrono::steady_clock::now();
    OpenFolders::Folder found = folders_.find(name, now);
    if (found) return found;
    Descriptor opened(::openat(root_, std::string(name).c_str(), kFolderFlags));
    return opened ? folders_.keep(name, std::move(opened), now) : nullptr;
  }

  const int root_;
  const StoreCall& call_;
  OpenFolders folders_{call_.open_folders.value_or(is_local(root_) ? 0 : kMostFolders)};
};

class Lister {
 public:
  Lister(const std::string& root, const StoreCall& call) : root_(root), call_(call) {}

  Result<std::vector<StoredFolder>> list(std::string_view folder) {
    root_fd_ = Descriptor(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root_fd_) return tl::unexpected(cannot_list(root_, errno));
    FileQuestions questions(root_fd_.get(), call_);
    asked_ = &questions;
    FORELOAD_CHECK(find_folders(folder));
    std::vector<StoredFolder> found;
    found.reserve(folders_.size());
    for (Folder& one : folders_)
      found.push_back({std::move(one.path), one.time, std::move(one.files)});
    return found;
  }

 private:
  Result<void> find_folders(std::string_view first);
  Result<void> read_folders(size_t first, size_t last);
  std::optional<Error> read_folder(Folder& folder, const std::atomic<bool>& cancelled) const;
  Result<void> settle_unsure(size_t first, size_t last);
  Error cannot_list(std::string_view folder, int error) const;

  const std::string root_;
  const StoreCall& call_;
  Descriptor root_fd_;
  FileQuestions* asked_ = nullptr;
  std::deque<Folder> folders_;  // the root first, then level by level; a deque keeps them in place
};

Error Lister::cannot_list(std::string_view folder, int error) const {
  return {ErrorKind::unreadable,
          fmt::format("cannot list folder {}: {}; {}", folder, system_message(error),
                      folder == root_ ? "check the path" + did_you_mean(root_)
                                      : "make it readable, or remove it")};
}

// Level by level, so that all folders of a level can be read at once.
Result<void> Lister::find_folders(std::string_view first_folder) {
  folders_.emplace_back().path = first_folder;
  for (size_t first = 0; first < folders_.size();) {
    const size_t last = folders_.size();
    FORELOAD_CHECK(read_folders(first, last));
    FORELOAD_CHECK(settle_unsure(first, last));
    for (size_t f = first; f < last; ++f) {
      Folder& folder = folders_[f];
      std::ranges::sort(folder.files, {}, &StoredObject::name);
      std::sort(folder.folders.begin(), folder.folders.end());
      for (const std::string& name : folder.folders) {
        Folder& child = folders_.emplace_back();
        child.path = join(folder.path, name);
        child.parent = &folder;
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
        count_operation(call_.operations, Operation::list, begin, 0, error.has_value());
        return error;
      },
      root_, call_);
}

std::optional<Error> Lister::read_folder(Folder& folder, const std::atomic<bool>& cancelled) const {
  const std::string full_path = folder.path.empty() ? root_ : join(root_, folder.path);
  const int fd = ::openat(root_fd_.get(), folder.path.empty() ? "." : folder.path.c_str(),
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
    } else {
      folder.files.push_back({join(folder.path, name)});
    }
  }
  return std::nullopt;
}

// A loop of its own because a folder may hold a million links, each of which costs a round trip.
Result<void> Lister::settle_unsure(size_t first, size_t last) {
  struct Question {
    Folder* folder;
    StoredObject file;  // with its size and version, if it is one
    std::string* name;
    bool is_folder = false;
  };
  std::vector<Question> questions;
  for (size_t f = first; f < last; ++f) {
    for (std::string& name : folders_[f].unsure)
      questions.push_back({&folders_[f], {join(folders_[f].path, name)}, &name});
  }
  if (questions.empty()) return {};
  FORELOAD_CHECK(for_all(
      questions.size(),
      [this, &questions](size_t i, const std::atomic<bool>&) -> std::optional<Error> {
        Question& question = questions[i];
        struct statx status{};
        const int error = asked_->ask(question.file.name, status);
        if (error == 0) {
          question.is_folder = S_ISDIR(status.stx_mode);
          if (!question.is_folder) note_status(0, status, question.file);
        } else if (error != ENOENT && error != ENOTDIR && error != ELOOP) {
          return cannot_list(join(root_, question.file.name), error);
        }  // otherwise a link to nothing, of which stat() finds out more
        return std::nullopt;
      },
      root_, call_));
  for (Question& question : questions) {
    Folder& folder = *question.folder;
    if (question.is_folder) {
      folder.folders.push_back(std::move(*question.name));
    } else {
      folder.files.push_back(std::move(question.file));
    }
  }
  return {};
}

// Whether `error` of a stat means that the file is there, and is a link to nothing or to itself.
bool leads_nowhere(int folder, const std::string& name, int error) {
  if (error != ENOENT && error != ELOOP && error != ENOTDIR) return false;
  struct statx status{};
  return ::statx(folder, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) == 0 &&
         S_ISLNK(status.stx_mode);
}

}  // namespace

Result<std::vector<StoredFolder>> FileStore::list(std::string_view folder,
                                                  const StoreCall& call) const {
  return Lister(where(), call).list(folder);
}

Result<void> FileStore::stat(std::span<StoredObject> objects, const StoreCall& call,
                             const Refuse& refuse) const {
  const Descriptor root(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const int no_root = root ? 0 : errno;
  FileQuestions questions(root.get(), call);
  const auto item = [&](size_t i, const std::atomic<bool>&) -> std::optional<Error> {
    StoredObject& object = objects[i];
    if (object.version != 0) return std::nullopt;  // known since it was listed
    struct statx status{};
    const int error = no_root != 0 ? no_root : questions.ask(object.name, status);
    if (error != 0 && !leads_nowhere(root.get(), object.name, error))
      return refuse(i, system_message(error));
    if (error == 0 && S_ISDIR(status.stx_mode)) return refuse(i, "it is a folder");
    note_status(error, status, object);
    return std::nullopt;
  };
  if (questions.by_folder()) {
    // Most of FUSE looks up one name of a folder after the other, so files of many folders are
    // asked about at once. What fails ends this, and is found again, the first of all, in their
    // order.
    const FarApart order(objects.size());
    const auto far = [&](size_t k, const std::atomic<bool>& cancelled) -> std::optional<Error> {
      const size_t i = order.item(k);
      return i < objects.size() ? item(i, cancelled) : std::nullopt;
    };
    Result<void> done = for_all(order.rounded_up(), far, where(), call, objects.size());
    if (done || done.error().kind == ErrorKind::cancelled) return done;
  }
  return for_all(objects.size(), item, where(), call, objects.size());
}

Result<std::optional<std::string>> FileStore::changed(std::span<const StoredFolder> folders,
                                                      const StoreCall& call) const {
  return first_changed(folders, where(), call, [&](const StoredFolder& folder) -> Result<bool> {
    const std::string path = join(where(), folder.name);
    struct statx status{};
    const int error = status_of(AT_FDCWD, path, STATX_TYPE | STATX_MTIME, call, status);
    // Without the root nothing can be listed again.
    if (error != 0 && (folder.name.empty() || (error != ENOENT && error != ENOTDIR)))
      return fail(ErrorKind::unreadable, fmt::format("cannot see whether folder {} changed: {}",
                                                     path, system_message(error)));
    return error != 0 || !S_ISDIR(status.stx_mode) ||
           nanoseconds(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec) != folder.time;
  });
}

}  // namespace foreload
