// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/uring_engine.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "foreload/stores/shared_source.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::hours kLongestWait{1};

enum class Step : uint8_t { folder, open, stat, read, forget, close };

// A file on its way from open to close. In the hands of the system between two steps, so it stays
// where it is and lives until the system is done with it, answered or not.
struct Job {
  ReadLedger::Ref owed;
  std::string name;
  std::string folder_name;  // while it is opened
  Step step = Step::open;
  SteadyTime step_start;
  OpenFolders::Folder folder;  // while the file is opened relative to it
  int fd = -1;
  uint64_t done = 0;  // bytes
  struct statx status{};
  std::vector<iovec> places;  // of a read with several receivers
  FileTime changed;           // of a file that was left open
  bool reused = false;        // so, and not looked at yet
  bool was_right = false;     // the file is the one that was listed
};

// A new ring may get the addresses of one that a thread on its own has just given back. The system
// sees to it that this is safe; the lock lets a race detector see it too.
std::mutex& mapping() {
  static std::mutex mutex;
  return mutex;
}

// The ring and everything the system may still write to. The thread that runs it shares in it, so
// that both outlive the source where the system does not let go of a read.
class Ring {
 public:
  Ring(std::shared_ptr<const FolderFiles> files, Source::Answered answered)
      : files_(std::move(files)), ledger_(std::move(answered)) {}
  ~Ring() {
    if (!ready_) return;
    const std::scoped_lock lock(mapping());
    ::io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Says what is missing, or nothing.
  std::string set_up();
  void submit(std::span<const SourceRead> reads);
  void cancel(uint64_t id);
  void run();
  void stop();

  std::string describe() const { return fmt::format("folder {} (io_uring)", files_->root_name); }
  uint64_t abandoned() const { return ledger_.abandoned(); }

 private:
  void wake();
  void arm_wake();
  void start_reads();
  void advance(Job& job, int result);
  void opened_folder(Job& job, int result);
  void opened(Job& job, int result);
  void stated(Job& job, int result);
  void got(Job& job, int result);
  void begin(Job& job);
  void ask_folder(Job& job);
  void ask_open(Job& job);
  void ask_stat(Job& job);
  void ask_read(Job& job);
  void ask_cancel(Job& job);
  void finish(Job& job, Outcome outcome);
  void end(Job& job);
  io_uring_sqe* entry(Job& job, Step step);
  io_uring_sqe* entry();
  void exchange(SteadyTime until);

  const std::shared_ptr<const FolderFiles> files_;
  ReadLedger ledger_;
  Descriptor wake_fd_;
  io_uring ring_{};
  bool ready_ = false;
  std::atomic<bool> woken_ = false;
  std::atomic<bool> stopping_ = false;

  // Only run() touches these.
  std::unordered_map<OwedRead*, Job> jobs_;
  SteadyTime descriptors_at_ = SteadyTime::min();  // nothing is opened before
};

std::string Ring::set_up() {
  // Room for a step and a cancellation of every file, abandoned ones included, and the wake-up.
  const unsigned entries = std::bit_ceil(4 * files_->most_in_flight + 2);
  const int result = [&] {
    const std::scoped_lock lock(mapping());
    return ::io_uring_queue_init(entries, &ring_, 0);
  }();
  if (result < 0) {
    return fmt::format("{} when asking for a ring", std::generic_category().message(-result));
  }
  ready_ = true;
  const std::unique_ptr<io_uring_probe, void (*)(io_uring_probe*)> probe(
      ::io_uring_get_probe_ring(&ring_), ::io_uring_free_probe);
  for (const int operation :
       {IORING_OP_OPENAT, IORING_OP_STATX, IORING_OP_READ, IORING_OP_READV, IORING_OP_FADVISE,
        IORING_OP_CLOSE, IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL}) {
    if (!probe || ::io_uring_opcode_supported(probe.get(), operation) == 0) {
      return "the kernel is too old";
    }
  }
  if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) return "the kernel is too old";
  wake_fd_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd_) {
    return fmt::format("{} when asking for an eventfd", std::generic_category().message(errno));
  }
  return {};
}

void Ring::submit(std::span<const SourceRead> reads) {
  ledger_.add(reads);
  wake();
}

void Ring::cancel(uint64_t id) {
  ledger_.ask_cancel(id);
  wake();
}

void Ring::wake() {
  if (woken_.exchange(true)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

void Ring::stop() {
  stopping_ = true;
  ledger_.close();
  wake();
}

void Ring::run() {
  // As many of the system's threads as files may be in its hands; by default there are few.
  unsigned workers[2] = {2 * files_->most_in_flight, 0};
  ::io_uring_register_iowq_max_workers(&ring_, workers);
  arm_wake();
  while (!stopping_) {
    for (const ReadLedger::Ref& owed : ledger_.answer_due(Clock::now())) {
      if (const auto found = jobs_.find(owed.get()); found != jobs_.end()) {
        ask_cancel(found->second);
      }
    }
    start_reads();
    const bool starved = descriptors_at_ != SteadyTime::min();
    exchange(std::min(ledger_.next_due(), starved ? descriptors_at_ : SteadyTime::max()));
  }
  for (auto& [owed, job] : jobs_) {
    if (job.step < Step::forget) ask_cancel(job);  // the others are about to end
  }
  while (!jobs_.empty()) exchange(SteadyTime::max());
}

// Hands all entries to the system, waits for completions, and moves their files on.
void Ring::exchange(SteadyTime until) {
  const SteadyTime now = Clock::now();
  const auto wait =
      std::clamp<Clock::duration>(until <= now ? Clock::duration{} : until - now, {}, kLongestWait);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wait);
  __kernel_timespec timeout{seconds.count(), (wait - seconds).count()};
  io_uring_cqe* first = nullptr;
  const int result = ::io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
  if (result == -EAGAIN || result == -EBUSY || result == -ENOMEM) {
    // The system lacks memory for the entries; they stay where they are for the next time.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  constexpr unsigned kBatch = 64;
  io_uring_cqe* completed[kBatch];
  while (const unsigned count = ::io_uring_peek_batch_cqe(&ring_, completed, kBatch)) {
    for (unsigned i = 0; i < count; ++i) {
      void* const about = ::io_uring_cqe_get_data(completed[i]);
      if (about == this) {
        arm_wake();
      } else if (about != nullptr) {
        advance(*static_cast<Job*>(about), completed[i]->res);
      }
    }
    ::io_uring_cq_advance(&ring_, count);
  }
}

void Ring::arm_wake() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(wake_fd_.get(), &count, sizeof count);
  woken_ = false;
  io_uring_sqe* const sqe = entry();
  ::io_uring_prep_poll_add(sqe, wake_fd_.get(), POLLIN);
  ::io_uring_sqe_set_data(sqe, this);
}

io_uring_sqe* Ring::entry() {
  io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {  // only where the system refused earlier ones
    ::io_uring_submit(&ring_);
    sqe = ::io_uring_get_sqe(&ring_);
  }
  return sqe;
}

io_uring_sqe* Ring::entry(Job& job, Step step) {
  job.step = step;
  job.step_start = Clock::now();
  return entry();
}

void Ring::start_reads() {
  if (Clock::now() < descriptors_at_) return;
  descriptors_at_ = SteadyTime::min();
  while (jobs_.size() < files_->most_in_flight + ledger_.abandoned() &&
         ledger_.abandoned() < files_->most_in_flight) {
    ReadLedger::Ref owed = ledger_.start();
    if (!owed) return;
    const uint32_t object = owed->read().extent.object;
    std::string name(files_->objects->name(object));
    if (Outcome outcome = files_->check_object(object); !outcome.good()) {
      ledger_.finish(owed, std::move(outcome));
      continue;
    }
    Job& job = jobs_[owed.get()];
    job.owed = std::move(owed);
    job.name = std::move(name);
    begin(job);
  }
}

void Ring::begin(Job& job) {
  const Extent& extent = job.owed->read().extent;
  if (files_->reads_part(extent)) {
    job.fd = files_->open->take(extent.object, job.changed).release();
    job.reused = job.fd >= 0;
  }
  return job.reused ? ask_stat(job) : ask_folder(job);
}

// Where the folder of the file is open, nobody is asked for it.
void Ring::ask_folder(Job& job) {
  const std::string_view name = folder_of(job.name);
  if (name.empty() || !files_->folders->used()) return ask_open(job);
  job.folder = files_->folders->find(name, Clock::now());
  if (job.folder) return ask_open(job);
  job.folder_name = name;
  io_uring_sqe* const sqe = entry(job, Step::folder);
  ::io_uring_prep_openat(sqe, files_->root.get(), job.folder_name.c_str(), kFolderFlags, 0);
  ::io_uring_sqe_set_data(sqe, &job);
  ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

// Relative to its folder where that is open, by its path otherwise.
void Ring::ask_open(Job& job) {
  const int folder = job.folder ? job.folder->get() : files_->root.get();
  const char* const name = job.name.c_str() + (job.folder ? folder_of(job.name).size() + 1 : 0);
  io_uring_sqe* const sqe = entry(job, Step::open);
  ::io_uring_prep_openat(sqe, folder, name, files_->open_flags, 0);
  ::io_uring_sqe_set_data(sqe, &job);
  ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

void Ring::ask_stat(Job& job) {
  if (files_->local) {
    job.step_start = Clock::now();
    const int result =
        ::statx(job.fd, "", AT_EMPTY_PATH, kStatusMask, &job.status) == 0 ? 0 : -errno;
    files_->count(Operation::stat, job.step_start, result);
    return stated(job, result);
  }
  io_uring_sqe* const sqe = entry(job, Step::stat);
  ::io_uring_prep_statx(sqe, job.fd, "", AT_EMPTY_PATH, kStatusMask, &job.status);
  ::io_uring_sqe_set_data(sqe, &job);
  ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

void Ring::ask_read(Job& job) {
  const SourceRead& read = job.owed->read();
  io_uring_sqe* const sqe = entry(job, Step::read);
  const uint64_t offset = read.extent.offset + job.done;
  if (read.into.size() == 1) {
    const uint64_t length = std::min(read.extent.length - job.done, kMostPerRequest);
    ::io_uring_prep_read(sqe, job.fd, read.into[0].data + job.done, static_cast<unsigned>(length),
                         offset);
  } else {
    job.places = places_from(read, job.done);
    ::io_uring_prep_readv(sqe, job.fd, job.places.data(), static_cast<unsigned>(job.places.size()),
                          offset);
  }
  ::io_uring_sqe_set_data(sqe, &job);
  // Otherwise the system tries it here first, and some file systems ask their server for the size
  // of the file before they say that it has to wait: one such question after the other.
  if (!files_->local) ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

// Whatever comes of it, the step itself completes when the system is done with it.
void Ring::ask_cancel(Job& job) {
  io_uring_sqe* const sqe = entry();
  ::io_uring_prep_cancel(sqe, &job, 0);
  ::io_uring_sqe_set_data(sqe, nullptr);
}

void Ring::advance(Job& job, int result) {
  switch (job.step) {
    case Step::folder:
      files_->count(Operation::open, job.step_start, result);
      return opened_folder(job, result);
    case Step::open:
      files_->count(Operation::open, job.step_start, result);
      return opened(job, result);
    case Step::stat:
      files_->count(Operation::stat, job.step_start, result);
      return stated(job, result);
    case Step::read:
      files_->count(Operation::read, job.step_start, result);
      return got(job, result);
    case Step::forget:
      return end(job);
    case Step::close:
      // A cancellation meant for the step before may have met this one, which left the file open.
      if (result == -ECANCELED) return end(job);
      descriptors_at_ = SteadyTime::min();
      jobs_.erase(job.owed.get());
      return;
  }
}

// Where it cannot be opened, the path of the file says why.
void Ring::opened_folder(Job& job, int result) {
  if (result >= 0)
    job.folder = files_->folders->keep(job.folder_name, Descriptor(result), Clock::now());
  if (job.owed->answered()) return finish(job, {});
  ask_open(job);
}

void Ring::opened(Job& job, int result) {
  if (const bool by_folder = std::exchange(job.folder, nullptr) != nullptr;
      by_folder && result < 0 && !out_of_descriptors(-result) && !job.owed->answered()) {
    // Another folder may have its name by now.
    files_->folders->forget(folder_of(job.name));
    return ask_open(job);
  }
  if (result >= 0) {
    job.fd = result;
    if (job.owed->answered()) return finish(job, {});
    return ask_stat(job);
  }
  if (!out_of_descriptors(-result) || job.owed->answered()) {
    return finish(job, failed_step(-result, "opening"));
  }
  if (!files_->close_idle()) descriptors_at_ = Clock::now() + kDescriptorPause;
  const ReadLedger::Ref owed = std::move(job.owed);
  jobs_.erase(owed.get());
  ledger_.put_back(owed);
}

void Ring::stated(Job& job, int result) {
  if (job.owed->answered()) return finish(job, {});
  if (std::exchange(job.reused, false) && (result < 0 || change_of(job.status) != job.changed)) {
    // Another file may have its name by now. Nobody waits for this one to be closed.
    io_uring_sqe* const sqe = entry();
    ::io_uring_prep_close(sqe, std::exchange(job.fd, -1));
    ::io_uring_sqe_set_data(sqe, nullptr);
    ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    return ask_folder(job);
  }
  if (result < 0) return finish(job, failed_step(-result, "asking for its size"));
  Outcome outcome = files_->check_status(job.status, job.owed->read().extent);
  if (!outcome.good() || job.owed->read().extent.length == 0) {
    return finish(job, std::move(outcome));
  }
  job.was_right = true;
  let_wait(job.fd);
  ask_read(job);
}

void Ring::got(Job& job, int result) {
  const Extent& extent = job.owed->read().extent;
  if (job.owed->answered()) return finish(job, {});
  if (result == -EINTR) return ask_read(job);
  if (result < 0) return finish(job, failed_step(-result, "reading"));
  if (result == 0) return finish(job, files_->ended_early(extent, job.done));
  job.done += static_cast<uint64_t>(result);
  if (job.done < extent.length) return ask_read(job);
  finish(job, {});
}

// The answer first, then the tidying.
void Ring::finish(Job& job, Outcome outcome) {
  ledger_.finish(job.owed, std::move(outcome));
  const Extent& extent = job.owed->read().extent;
  if (!files_->drop_page_cache || job.step != Step::read) return end(job);
  io_uring_sqe* const sqe = entry(job, Step::forget);
  // The length has 32 bits here; 0 means up to the end of the file.
  const bool fits = extent.length <= kMostPerRequest;
  ::io_uring_prep_fadvise(sqe, job.fd, extent.offset, fits ? static_cast<off_t>(extent.length) : 0,
                          POSIX_FADV_DONTNEED);
  ::io_uring_sqe_set_data(sqe, &job);
}

void Ring::end(Job& job) {
  // Only what was looked at and found right has been read.
  if (job.fd >= 0 && job.was_right && files_->reads_part(job.owed->read().extent)) {
    job.was_right = false;
    job.fd = files_->open
                 ->keep(job.owed->read().extent.object, change_of(job.status), Descriptor(job.fd))
                 .release();
  }
  if (job.fd < 0 || files_->local) {
    if (job.fd >= 0) {
      ::close(job.fd);
      descriptors_at_ = SteadyTime::min();
    }
    jobs_.erase(job.owed.get());
    return;
  }
  io_uring_sqe* const sqe = entry(job, Step::close);
  ::io_uring_prep_close(sqe, job.fd);
  ::io_uring_sqe_set_data(sqe, &job);
  ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

}  // namespace

Result<std::unique_ptr<Source>> start_uring_engine(std::shared_ptr<const FolderFiles> files,
                                                   const Source::Answered& answered) {
  const std::string name = files->root_name;
  const auto ring = std::make_shared<Ring>(std::move(files), answered);
  std::string missing = ring->set_up();
  if (missing.empty()) {
    try {
      return std::make_unique<SharedSource<Ring>>("foreload-ring", ring);
    } catch (const std::system_error& error) {
      missing = fmt::format("{} when starting a thread", error.code().message());
    }
  }
  return fail(ErrorKind::invalid,
              fmt::format("cannot read from folder {} with io_uring: {}; use the engine 'threads', "
                          "or let the system allow io_uring (kernel 5.11 or newer, sysctl "
                          "kernel.io_uring_disabled, seccomp rules of the container)",
                          name, missing));
}

}  // namespace foreload
