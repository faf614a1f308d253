// SPDX-License-Identifier: Apache-2.0
//
// What the kernel asks and what it costs. Unless the settings say otherwise, the kernel caches no
// contents (direct_io) and no attributes (attr_timeout 0), so that every read() and stat() of a
// program arrives here. It does cache that names exist (entry_timeout): a stat() is then one
// GETATTR and an open() one OPEN, and each costs what its setting says. A LOOKUP comes before the
// first use of a name, or before each use where names are not cached. Closing is free.
//
// A read() becomes one READ of up to 1 MiB, the most FUSE allows; a longer one becomes several, one
// after the other, and each costs its latency.
#include "mount.h"

#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <climits>
#include <fmt/format.h>

#include "tree.h"

namespace foreload::slowfs {
namespace {

constexpr unsigned kLargestRequest = 1 << 20;
// A request that waits holds a thread, so this is how many a reader can have in flight.
constexpr unsigned kMostThreads = 1024;

struct Mounted {
  Shape& shape;
  int source = -1;
  Tree tree;
  Node control{kControlFile, 1};
};

struct OpenFile {
  int descriptor = -1;
  std::string text;  // of the control file, as it was when it was opened
  ~OpenFile() {
    if (descriptor >= 0) close(descriptor);
  }
};

struct OpenFolder {
  struct Entry {
    std::string name;
    ino_t inode;
    mode_t type;
  };
  std::vector<Entry> entries;
};

Mounted& mounted(fuse_req_t request) {
  return *static_cast<Mounted*>(fuse_req_userdata(request));
}

Node& node_of(Mounted& fs, fuse_ino_t number) {
  return number == FUSE_ROOT_ID ? fs.tree.root() : *reinterpret_cast<Node*>(number);
}

template <class T>
T* handle(fuse_file_info* file) {
  return reinterpret_cast<T*>(file->fh);
}

struct stat control_attributes() {
  struct stat attributes{};
  attributes.st_ino = 2;
  attributes.st_mode = S_IFREG | 0600;
  attributes.st_nlink = 1;
  return attributes;
}

// 0 or an error number.
int attributes_of(const Mounted& fs, const Node& node, struct stat& attributes) {
  if (&node == &fs.control) {
    attributes = control_attributes();
    return 0;
  }
  return fstatat(fs.source, node.path.c_str(), &attributes, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

void on_init(void*, fuse_conn_info* connection) {
  connection->max_read = kLargestRequest;
  connection->max_write = kLargestRequest;  // libfuse derives the pages per request from it
  connection->max_readahead = kLargestRequest;
  connection->max_background = kMostThreads;
  connection->congestion_threshold = kMostThreads;
}

void on_lookup(fuse_req_t request, fuse_ino_t folder_number, const char* name) {
  const Time arrival = Clock::now();
  Mounted& fs = mounted(request);
  fuse_entry_param entry{};
  entry.entry_timeout = fs.shape.settings()->name_seconds;
  if (folder_number == FUSE_ROOT_ID && std::strcmp(name, kControlFile) == 0) {
    entry.ino = reinterpret_cast<fuse_ino_t>(&fs.control);
    entry.attr = control_attributes();
    fuse_reply_entry(request, &entry);
    return;
  }
  fs.shape.lookup(arrival);
  entry.attr_timeout = fs.shape.settings()->attr_seconds;
  const Node& folder = node_of(fs, folder_number);
  if (fstatat(fs.source, Tree::join(folder, name).c_str(), &entry.attr, AT_SYMLINK_NOFOLLOW) != 0) {
    fuse_reply_err(request, errno);
    return;
  }
  Node& node = fs.tree.enter(folder, name);
  entry.ino = reinterpret_cast<fuse_ino_t>(&node);
  if (fuse_reply_entry(request, &entry) != 0) fs.tree.forget(node, 1);
}

void on_forget(fuse_req_t request, fuse_ino_t number, uint64_t times) {
  Mounted& fs = mounted(request);
  Node& node = node_of(fs, number);
  if (&node != &fs.control) fs.tree.forget(node, times);
  fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  const Time arrival = Clock::now();
  Mounted& fs = mounted(request);
  const Node& node = node_of(fs, number);
  struct stat attributes{};
  const int error = attributes_of(fs, node, attributes);
  if (&node != &fs.control) fs.shape.stat(arrival);
  if (error != 0)
    fuse_reply_err(request, error);
  else
    fuse_reply_attr(request, &attributes, fs.shape.settings()->attr_seconds);
}

// Only the control file can be truncated, which opening it with O_TRUNC asks for.
void on_setattr(fuse_req_t request, fuse_ino_t number, struct stat*, int, fuse_file_info*) {
  Mounted& fs = mounted(request);
  const struct stat attributes = control_attributes();
  if (&node_of(fs, number) == &fs.control)
    fuse_reply_attr(request, &attributes, 0);
  else
    fuse_reply_err(request, EROFS);
}

void on_readlink(fuse_req_t request, fuse_ino_t number) {
  Mounted& fs = mounted(request);
  char target[PATH_MAX + 1];
  const ssize_t length = readlinkat(fs.source, node_of(fs, number).path.c_str(), target, PATH_MAX);
  if (length < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  target[length] = '\0';
  fuse_reply_readlink(request, target);
}

void on_open(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  const Time arrival = Clock::now();
  Mounted& fs = mounted(request);
  const Node& node = node_of(fs, number);
  auto opened = std::make_unique<OpenFile>();
  if (&node == &fs.control) {
    opened->text = fs.shape.json();
  } else if ((file->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, EROFS);
    return;
  } else {
    opened->descriptor = openat(fs.source, node.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const int error = errno;
    fs.shape.open(arrival);
    if (opened->descriptor < 0) {
      fuse_reply_err(request, error);
      return;
    }
  }
  file->fh = reinterpret_cast<uint64_t>(opened.get());
  file->direct_io = &node == &fs.control || fs.shape.settings()->page_cache == 0 ? 1 : 0;
  file->noflush = 1;
  if (fuse_reply_open(request, file) == 0) opened.release();
}

void on_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  const Time arrival = Clock::now();
  const OpenFile& opened = *handle<OpenFile>(file);
  if (opened.descriptor < 0) {
    // A copy: once the kernel has the answer, the file may be released before the call returns.
    const auto begin = std::min(static_cast<size_t>(offset), opened.text.size());
    const std::string part = opened.text.substr(begin, size);
    fuse_reply_buf(request, part.data(), part.size());
    return;
  }
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  // Before the wait, so that the time it takes is part of the time the request is made to take.
  const ssize_t length = pread(opened.descriptor, buffer.data(), size, offset);
  if (length < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  mounted(request).shape.read(arrival, static_cast<uint64_t>(length));
  fuse_reply_buf(request, buffer.data(), static_cast<size_t>(length));
}

void on_write(fuse_req_t request, fuse_ino_t, const char* text, size_t size, off_t,
              fuse_file_info*) {
  if (const auto done = mounted(request).shape.command({text, size}); !done) {
    fmt::print(stderr, "slowfs: {}\n", done.error().message);
    fuse_reply_err(request, EINVAL);
    return;
  }
  fuse_reply_write(request, size);
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  delete handle<OpenFile>(file);
  fuse_reply_err(request, 0);
}

void on_opendir(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  Mounted& fs = mounted(request);
  ++fs.shape.counters().listings;
  const int descriptor = openat(fs.source, node_of(fs, number).path.c_str(),
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR* stream = descriptor < 0 ? nullptr : fdopendir(descriptor);
  if (stream == nullptr) {
    fuse_reply_err(request, errno);
    if (descriptor >= 0) close(descriptor);
    return;
  }
  auto opened = std::make_unique<OpenFolder>();
  while (const dirent* entry = readdir(stream))
    opened->entries.push_back({entry->d_name, entry->d_ino, DTTOIF(entry->d_type)});
  closedir(stream);
  file->fh = reinterpret_cast<uint64_t>(opened.get());
  if (fuse_reply_open(request, file) == 0) opened.release();
}

void on_readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  const Time arrival = Clock::now();
  const auto& entries = handle<OpenFolder>(file)->entries;
  std::vector<char> names(size);
  size_t used = 0;
  for (auto i = static_cast<size_t>(offset); i < entries.size(); ++i) {
    struct stat attributes{};
    attributes.st_ino = entries[i].inode;
    attributes.st_mode = entries[i].type;
    const size_t needed =
        fuse_add_direntry(request, names.data() + used, size - used, entries[i].name.c_str(),
                          &attributes, static_cast<off_t>(i + 1));
    if (needed > size - used) break;
    used += needed;
  }
  if (used > 0) mounted(request).shape.list(arrival);
  fuse_reply_buf(request, names.data(), used);
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  delete handle<OpenFolder>(file);
  fuse_reply_err(request, 0);
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs space{};
  if (fstatvfs(mounted(request).source, &space) != 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_statfs(request, &space);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = on_init;
  ops.lookup = on_lookup;
  ops.forget = on_forget;
  ops.getattr = on_getattr;
  ops.setattr = on_setattr;
  ops.readlink = on_readlink;
  ops.open = on_open;
  ops.read = on_read;
  ops.write = on_write;
  ops.release = on_release;
  ops.opendir = on_opendir;
  ops.readdir = on_readdir;
  ops.releasedir = on_releasedir;
  ops.statfs = on_statfs;
  ops.create = [](fuse_req_t request, fuse_ino_t, const char*, mode_t, fuse_file_info*) {
    fuse_reply_err(request, EROFS);
  };
  ops.mkdir = [](fuse_req_t request, fuse_ino_t, const char*, mode_t) {
    fuse_reply_err(request, EROFS);
  };
  ops.unlink = [](fuse_req_t request, fuse_ino_t, const char*) { fuse_reply_err(request, EROFS); };
  ops.rmdir = ops.unlink;
  ops.rename = [](fuse_req_t request, fuse_ino_t, const char*, fuse_ino_t, const char*, unsigned) {
    fuse_reply_err(request, EROFS);
  };
  return ops;
}

std::string system_message(std::string_view action, const std::string& path) {
  return fmt::format("cannot {} {}: {}", action, path, std::strerror(errno));
}

Result<void> run_session(fuse_session* session, const std::string& mount_point, unsigned threads) {
  const auto not_mounted = [&] {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot mount at {}: see above; it needs /dev/fuse and, unless started "
                            "by root, fusermount3",
                            mount_point));
  };
  if (fuse_set_signal_handlers(session) != 0) return not_mounted();
  if (fuse_session_mount(session, mount_point.c_str()) != 0) {
    fuse_remove_signal_handlers(session);
    return not_mounted();
  }
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, threads);
  fuse_loop_cfg_set_idle_threads(config, threads);
  const int ended = fuse_session_loop_mt(session, config);  // negative: -errno
  fuse_loop_cfg_destroy(config);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  if (ended < 0)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot serve {}: {}", mount_point, std::strerror(-ended)));
  return {};
}

}  // namespace

Result<void> serve(const std::string& source, const std::string& mount_point, Shape& shape) {
  Mounted fs{shape};
  fs.source = open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fs.source < 0) return fail(ErrorKind::unreadable, system_message("open the folder", source));
  std::string name = "slowfs";
  std::string option = "-o";
  std::string options = fmt::format("fsname=slowfs,subtype=slowfs,max_read={}", kLargestRequest);
  char* arguments[] = {name.data(), option.data(), options.data()};
  fuse_args args = FUSE_ARGS_INIT(3, arguments);
  const fuse_lowlevel_ops ops = operations();
  fuse_session* session = fuse_session_new(&args, &ops, sizeof ops, &fs);
  fuse_opt_free_args(&args);
  Result<void> result;
  if (session == nullptr) {
    result = fail(ErrorKind::invalid, "cannot start FUSE: see above");
  } else {
    result =
        run_session(session, mount_point, static_cast<unsigned>(shape.settings()->server_threads));
    fuse_session_destroy(session);
  }
  close(fs.source);
  return result;
}

}  // namespace foreload::slowfs
