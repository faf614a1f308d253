// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/thread_engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/stores/shared_source.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMostThreads = 256;
constexpr std::chrono::milliseconds kThreadPause{20};  // after the system refused a thread

// Everything a thread touches. Each thread shares in it, so a stuck one outlives the source safely.
class Crew : public std::enable_shared_from_this<Crew> {
 public:
  Crew(std::shared_ptr<const FolderFiles> files, Source::Answered answered)
      : files_(std::move(files)),
        most_threads_(std::min(files_->most_in_flight, kMostThreads)),
        ledger_(std::move(answered)) {}

  void submit(std::span<const SourceRead> reads);
  void cancel(uint64_t id);
  // Answers deadlines and hires threads until stop().
  void run();
  // Answers everything and waits a moment for the threads.
  void stop();

  std::string describe() const { return fmt::format("folder {} (threads)", files_->root_name); }
  uint64_t abandoned() const { return ledger_.abandoned(); }

 private:
  enum class End { done, no_descriptor };

  // Threads the system has for itself, in abandoned reads, are not part of the crew.
  bool room_for_one_more() const {
    return threads_ < most_threads_ + ledger_.abandoned() &&
           ledger_.abandoned() < files_->most_in_flight;
  }
  SteadyTime hire(std::unique_lock<std::mutex>& lock);
  void work();
  End read_file(const ReadLedger::Ref& owed) const;
  Descriptor open_file(const std::string& name, int& error) const;
  Descriptor open_at(int folder, const char* name, int flags, int& error) const;
  OpenFolders::Folder open_folder(std::string_view name) const;
  int stat_file(int fd, struct statx& status) const;
  Descriptor take_open(const Extent& extent, struct statx& status) const;
  Outcome read_range(int fd, const OwedRead& owed) const;

  const std::shared_ptr<const FolderFiles> files_;
  const unsigned most_threads_;
  mutable ReadLedger ledger_;

  std::mutex mutex_;  // guards what follows; taken before the ledger's
  std::condition_variable watcher_;
  std::condition_variable workers_;
  std::condition_variable leaving_;
  size_t threads_ = 0;
  size_t idle_ = 0;
  bool stopping_ = false;
  SteadyTime descriptors_at_ = SteadyTime::min();  // nothing is opened before
};

void Crew::submit(std::span<const SourceRead> reads) {
  ledger_.add(reads);
  const std::scoped_lock lock(mutex_);
  watcher_.notify_one();
  if (reads.size() == 1) {
    workers_.notify_one();
  } else {
    workers_.notify_all();
  }
}

void Crew::cancel(uint64_t id) {
  ledger_.ask_cancel(id);
  const std::scoped_lock lock(mutex_);
  watcher_.notify_one();
}

void Crew::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    ledger_.answer_due(Clock::now());
    lock.lock();
    const SteadyTime hire_again = hire(lock);
    if (stopping_) break;
    const SteadyTime next = std::min(ledger_.next_due(), hire_again);
    if (next == SteadyTime::max()) {
      watcher_.wait(lock);
    } else {
      watcher_.wait_until(lock, next);
    }
  }
}

// Returns when to try again, SteadyTime::max() if nothing is missing.
SteadyTime Crew::hire(std::unique_lock<std::mutex>& lock) {
  while (!stopping_ && idle_ < ledger_.waiting() && room_for_one_more()) {
    ++threads_;
    ++idle_;
    lock.unlock();
    bool hired = true;
    try {
      start_own_thread("foreload-read", [self = shared_from_this()] { self->work(); }).detach();
    } catch (const std::system_error&) {
      hired = false;
    }
    lock.lock();
    if (hired) continue;
    --threads_;
    --idle_;
    return Clock::now() + kThreadPause;
  }
  return SteadyTime::max();
}

void Crew::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (Clock::now() < descriptors_at_) {
      workers_.wait_until(lock, descriptors_at_);
      continue;
    }
    ReadLedger::Ref owed = ledger_.start();
    if (!owed) {
      workers_.wait(lock);
      continue;
    }
    --idle_;
    lock.unlock();
    const End end = read_file(owed);
    if (end == End::no_descriptor) ledger_.put_back(owed);
    owed.reset();
    lock.lock();
    ++idle_;
    if (end == End::no_descriptor) {
      descriptors_at_ = Clock::now() + kDescriptorPause;
    } else if (std::exchange(descriptors_at_, SteadyTime::min()) != SteadyTime::min()) {
      workers_.notify_all();
    }
    // One that was replaced while it was stuck is one too many.
    if (threads_ > most_threads_ + ledger_.abandoned()) break;
    if (ledger_.waiting() > idle_) watcher_.notify_one();
  }
  --idle_;
  --threads_;
  leaving_.notify_all();
}

// The steps of a read, one after the other; whoever was abandoned meanwhile goes no further.
Crew::End Crew::read_file(const ReadLedger::Ref& owed) const {
  const Extent& extent = owed->read().extent;
  const std::string name(files_->objects->name(extent.object));
  Outcome outcome = files_->check_object(extent.object);
  if (!outcome.good()) return ledger_.finish(owed, std::move(outcome)), End::done;

  const bool part = files_->reads_part(extent);
  struct statx status{};
  Descriptor file = part ? take_open(extent, status) : Descriptor();
  if (!file) {
    int open_error = 0;
    file = open_file(name, open_error);
    if (out_of_descriptors(open_error)) {
      files_->close_idle();
      return End::no_descriptor;
    }
    if (open_error != 0) outcome = failed_step(open_error, "opening");
    if (outcome.good() && !owed->answered()) {
      const int error = stat_file(file.get(), status);
      if (error != 0) outcome = failed_step(error, "asking for its size");
    }
  }
  if (outcome.good() && !owed->answered()) outcome = files_->check_status(status, extent);
  const bool right = outcome.good();
  if (right && !owed->answered()) {
    let_wait(file.get());
    outcome = read_range(file.get(), *owed);
  }
  ledger_.finish(owed, std::move(outcome));
  if (files_->drop_page_cache && file && extent.length > 0) {
    ::posix_fadvise(file.get(), static_cast<off_t>(extent.offset),
                    static_cast<off_t>(extent.length), POSIX_FADV_DONTNEED);
  }
  if (part && right && file)
    file = files_->open->keep(extent.object, change_of(status), std::move(file));
  return End::done;
}

// By its folder's descriptor if there is one; by its path where that leads nowhere, since another
// folder may have the name by now.
Descriptor Crew::open_file(const std::string& name, int& error) const {
  const std::string_view folder_name = folder_of(name);
  if (!folder_name.empty() && files_->folders->used()) {
    if (const OpenFolders::Folder folder = open_folder(folder_name)) {
      Descriptor file =
          open_at(folder->get(), name.c_str() + folder_name.size() + 1, files_->open_flags, error);
      if (file || out_of_descriptors(error)) return file;
      files_->folders->forget(folder_name);
    }
  }
  return open_at(files_->root.get(), name.c_str(), files_->open_flags, error);
}

// Null where it cannot be opened.
OpenFolders::Folder Crew::open_folder(std::string_view name) const {
  OpenFolders::Folder found = files_->folders->find(name, Clock::now());
  if (found) return found;
  int error = 0;
  Descriptor opened = open_at(files_->root.get(), std::string(name).c_str(), kFolderFlags, error);
  return opened ? files_->folders->keep(name, std::move(opened), Clock::now()) : nullptr;
}

Descriptor Crew::open_at(int folder, const char* name, int flags, int& error) const {
  const SteadyTime start = Clock::now();
  Descriptor opened(::openat(folder, name, flags));
  error = opened ? 0 : errno;
  files_->count(Operation::open, start, -error);
  return opened;
}

// 0 or errno.
int Crew::stat_file(int fd, struct statx& status) const {
  const SteadyTime start = Clock::now();
  const int error = ::statx(fd, "", AT_EMPTY_PATH, kStatusMask, &status) != 0 ? errno : 0;
  files_->count(Operation::stat, start, -error);
  return error;
}

// A file that was left open and still is what its name stands for, with its status.
Descriptor Crew::take_open(const Extent& extent, struct statx& status) const {
  FileTime changed;
  Descriptor file = files_->open->take(extent.object, changed);
  if (file && (stat_file(file.get(), status) != 0 || change_of(status) != changed))
    return Descriptor();
  return file;
}

Outcome Crew::read_range(int fd, const OwedRead& owed) const {
  const SourceRead& read = owed.read();
  for (uint64_t done = 0; done < read.extent.length && !owed.answered();) {
    const SteadyTime start = Clock::now();
    const auto offset = static_cast<off_t>(read.extent.offset + done);
    ssize_t got = 0;
    if (read.into.size() == 1) {
      got = ::pread(fd, read.into[0].data + done,
                    std::min(read.extent.length - done, kMostPerRequest), offset);
    } else {
      const std::vector<iovec> places = places_from(read, done);
      got = ::preadv(fd, places.data(), static_cast<int>(places.size()), offset);
    }
    const int error = got < 0 ? errno : 0;
    files_->count(Operation::read, start, got < 0 ? -error : got);
    if (error == EINTR) continue;
    if (error != 0) return failed_step(error, "reading");
    if (got == 0) return files_->ended_early(read.extent, done);
    done += static_cast<uint64_t>(got);
  }
  return {};
}

void Crew::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    watcher_.notify_all();
    workers_.notify_all();
  }
  ledger_.close();
  std::unique_lock lock(mutex_);
  leaving_.wait_for(lock, kReadFarewell, [this] { return threads_ == 0; });
}

}  // namespace

Result<std::unique_ptr<Source>> start_thread_engine(std::shared_ptr<const FolderFiles> files,
                                                    Source::Answered answered) {
  const std::string name = files->root_name;
  try {
    return std::make_unique<SharedSource<Crew>>(
        "foreload-watch", std::make_shared<Crew>(std::move(files), std::move(answered)));
  } catch (const std::system_error& error) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot read from folder {}: no thread can be started ({}); raise the "
                            "limit of processes",
                            name, error.code().message()));
  }
}

}  // namespace foreload
