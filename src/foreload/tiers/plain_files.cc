// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/plain_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "foreload/base/descriptor.h"
#include "foreload/base/files.h"
#include "foreload/tiers/disk_answers.h"
#include "foreload/tiers/disk_core.h"
#include "foreload/tiers/traffic_queue.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using disk_cache::Ended;

constexpr uint64_t kPerFile = 512;     // bytes of the budget
constexpr unsigned kUsualThreads = 8;  // requests that the file system has at the same time
constexpr int kBuriedAtTheEnd = 1000;  // files
constexpr size_t kNameDigits = 32 + 1 + 16 + 1 + 16;
constexpr std::chrono::milliseconds kFilesPatience{900};  // of the destructor

uint64_t cost_of(uint64_t size) {
  return size + kPerFile;
}

std::string name_of_copy(const CopyKey& key, uint64_t checksum) {
  const std::string content = key.content.hex();
  return fmt::format("{}/{}.{:016x}.{:016x}", content.substr(0, 2), content, key.form, checksum);
}

// From the last part of a name. Nothing if it is no copy's.
std::optional<std::pair<CopyKey, uint64_t>> copy_of_name(const std::string& name) {
  if (name.size() != kNameDigits || name[32] != '.' || name[49] != '.') return std::nullopt;
  bool right = true;
  const auto number = [&](size_t from) {
    uint64_t value = 0;
    const char* const end = name.data() + from + 16;
    right = right && std::from_chars(name.data() + from, end, value, 16).ptr == end;
    return value;
  };
  const CopyKey key{{number(0), number(16)}, number(33)};
  const uint64_t checksum = number(50);
  if (!right) return std::nullopt;
  return std::pair(key, checksum);
}

// Which copies there are, who wants them and what they may take. Nobody does I/O under its lock.
// Any thread.
class PlainIndex {
 public:
  using Who = uint64_t;  // a bit for each borrower
  struct Copy {
    uint64_t size = 0;
    uint64_t checksum = 0;
    uint64_t number = 0;  // of all that there ever were
    bool whole = false;   // otherwise it is being written
    bool doomed = false;  // goes when its last pin does, or when it is whole
    uint32_t pins = 0;
    Who wanted = 0;
  };
  enum class Begun : uint8_t { write, full, dropped };

  explicit PlainIndex(uint64_t budget) : budget_(budget) {}

  Who lend() {
    const std::scoped_lock lock(mutex_);
    assert(~lent_ != 0);
    const Who bit = Who{1} << std::countr_one(lent_);
    lent_ |= bit;
    want_all_ |= bit;
    return bit;
  }
  void give_back(Who who) {
    keep(who, [](const CopyKey&) { return false; });
    const std::scoped_lock lock(mutex_);
    lent_ &= ~who;
  }
  void keep(Who who, const Tier::Wanted& wanted) {
    const std::scoped_lock lock(mutex_);
    want_all_ &= ~who;
    unwanted_.clear();
    for (auto& [key, copy] : copies_) {
      copy.wanted = wanted(key) ? copy.wanted | who : copy.wanted & ~who;
      if (copy.wanted == 0) unwanted_.push_back(key);
    }
  }

  // One more, if it is here.
  void want(Who who, const CopyKey& key) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = copies_.find(key); found != copies_.end()) found->second.wanted |= who;
  }

  // A file that an earlier run left.
  void find(const CopyKey& key, uint64_t size, uint64_t checksum) {
    const std::scoped_lock lock(mutex_);
    if (!copies_.try_emplace(key, Copy{size, checksum, ++numbers_, true}).second) return;
    used_ += cost_of(size);
    payload_ += size;
    unwanted_.push_back(key);
  }

  // A put waits: a drop from now on is meant for it too. What to give begin_put().
  uint64_t expect_put(const CopyKey& key) {
    const std::scoped_lock lock(mutex_);
    Pending& pending = pending_[key];
    ++pending.puts;
    return pending.drops;
  }
  void forget_put(const CopyKey& key) {
    const std::scoped_lock lock(mutex_);
    if (--pending_.at(key).puts == 0) pending_.erase(key);
  }
  // `write`: the caller writes it and says so with end_put().
  Begun begin_put(const CopyKey& key, uint64_t drops, uint64_t size, uint64_t checksum, Who who) {
    const std::scoped_lock lock(mutex_);
    if (pending_.at(key).drops != drops) return Begun::dropped;
    if (const auto found = copies_.find(key); found != copies_.end()) {
      found->second.wanted |= who;
      return Begun::full;
    }
    if (!make_room(cost_of(size))) return Begun::full;
    copies_.emplace(key, Copy{size, checksum, ++numbers_, false, false, 0, who});
    used_ += cost_of(size);
    return Begun::write;
  }
  void end_put(const CopyKey& key, bool written) {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(key);
    found->second.whole = true;
    payload_ += found->second.size;
    if (!written || found->second.doomed) return remove(found);
    if (found->second.wanted == 0) unwanted_.push_back(key);
  }

  std::optional<Copy> get(const CopyKey& key) const {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(key);
    if (found == copies_.end() || !found->second.whole) return std::nullopt;
    return found->second;
  }
  void drop(const CopyKey& key) {
    const std::scoped_lock lock(mutex_);
    if (const auto pending = pending_.find(key); pending != pending_.end()) ++pending->second.drops;
    const auto found = copies_.find(key);
    if (found == copies_.end()) return;
    if (found->second.whole && found->second.pins == 0) return remove(found);
    found->second.doomed = true;
  }
  // The file of this very copy is not what it was.
  bool lose(const CopyKey& key, uint64_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(key);
    if (found == copies_.end() || found->second.number != number) return false;
    remove(found);
    return true;
  }
  // Its number; 0: it is not here.
  uint64_t pin(const CopyKey& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(key);
    if (found == copies_.end() || !found->second.whole) return 0;
    ++found->second.pins;
    return found->second.number;
  }
  void unpin(const CopyKey& key, uint64_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(key);
    if (found == copies_.end() || found->second.number != number) return;
    if (--found->second.pins > 0) return;
    if (found->second.doomed) return remove(found);
    if (found->second.wanted == 0) unwanted_.push_back(key);
  }

  std::vector<FoundCopy> found() const {
    const std::scoped_lock lock(mutex_);
    std::vector<FoundCopy> found;
    for (const auto& [key, copy] : copies_)
      if (copy.whole) found.push_back({key, copy.size});
    return found;
  }
  uint64_t payload() const {
    const std::scoped_lock lock(mutex_);
    return payload_;
  }
  uint64_t used() const {
    const std::scoped_lock lock(mutex_);
    return used_;
  }
  uint64_t reclaimed() const {
    const std::scoped_lock lock(mutex_);
    return reclaimed_;
  }

  // Names of files that are to go; the caller removes them, unless they come back before.
  bool take_grave(std::string& name) {
    const std::scoped_lock lock(mutex_);
    if (graves_.empty()) return false;
    name = graves_.extract(graves_.begin()).value();
    return true;
  }
  void spare(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    graves_.erase(name);
  }
  bool has_graves() const {
    const std::scoped_lock lock(mutex_);
    return !graves_.empty();
  }

 private:
  struct Pending {
    uint64_t puts = 0;
    uint64_t drops = 0;
  };
  using Copies = std::unordered_map<CopyKey, Copy, CopyKeyHash>;

  // REQUIRES for both: the lock is held.
  void remove(Copies::iterator copy) {
    graves_.insert(name_of_copy(copy->first, copy->second.checksum));
    used_ -= cost_of(copy->second.size);
    payload_ -= copy->second.size;
    copies_.erase(copy);
  }
  bool make_room(uint64_t cost) {
    if (cost > budget_) return false;
    while (used_ + cost > budget_ && want_all_ == 0 && !unwanted_.empty()) {
      const auto found = copies_.find(unwanted_.front());
      unwanted_.pop_front();
      if (found == copies_.end()) continue;
      const Copy& copy = found->second;
      // One that is pinned comes back with its last pin.
      if (!copy.whole || copy.wanted != 0 || copy.pins > 0) continue;
      reclaimed_ += copy.size;
      remove(found);
    }
    return used_ + cost <= budget_;
  }

  const uint64_t budget_;
  mutable std::mutex mutex_;  // guards the rest
  Copies copies_;
  std::unordered_map<CopyKey, Pending, CopyKeyHash> pending_;  // of puts that wait
  std::deque<CopyKey> unwanted_;  // the first to go first; some may be wanted again
  std::set<std::string> graves_;
  Who lent_ = 0;
  Who want_all_ = 0;
  uint64_t numbers_ = 0;
  uint64_t used_ = 0;  // of the budget
  uint64_t payload_ = 0;
  uint64_t reclaimed_ = 0;  // bytes
};

// What the threads share; one that is stuck in the operating system outlives the tier with it.
class PlainFiles {
 public:
  struct Job {
    std::variant<Get, Put> request;
    uint64_t ticket = 0;
    PlainIndex::Who who = 0;
    uint64_t drops = 0;    // of a put; see PlainIndex
    bool refused = false;  // of a put: there was no room in the queue
  };

  explicit PlainFiles(DiskSettings chosen) : settings(std::move(chosen)), index(settings.budget) {}

  Result<void> open() {
    std::error_code error;
    fs::create_directories(settings.folder, error);
    folder_ = Descriptor(::open(settings.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_)
      return fail(ErrorKind::unreadable,
                  fmt::format("cannot open cache of files {}: {}; check the path",
                              settings.folder.native(), system_message(errno)));
    for (auto entry = fs::recursive_directory_iterator(settings.folder, error);
         !error && entry != fs::end(entry); entry.increment(error)) {
      const auto copy = copy_of_name(entry->path().filename().native());
      if (!copy || copy->first.content.low % settings.members != settings.member) continue;
      std::error_code gone;
      const uint64_t size = entry->file_size(gone);
      if (!gone) index.find(copy->first, size, copy->second);
    }
    return {};
  }

  void push(std::vector<Job> jobs, Traffic traffic) {
    const std::scoped_lock lock(mutex_);
    for (Job& job : jobs) {
      uint64_t bytes = 0;
      if (Put* put = std::get_if<Put>(&job.request)) {
        bytes = put->from.size();
        job.refused = cost_of(bytes) > settings.budget ||
                      bytes > settings.queue_bytes - std::min(settings.queue_bytes, waiting_);
        if (job.refused) {  // and costs the device nothing
          put->keeper.reset();
          bytes = 0;
        }
        waiting_ += bytes;
      } else {
        bytes = std::get<Get>(job.request).into.size();
      }
      queue_.push(traffic, bytes, std::move(job));
    }
    changed_.notify_all();
  }
  void wake() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_one();
  }
  void stop() {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  // Of each thread.
  void run() {
    while (true) {
      bury();
      const Next next = wait();
      if (next == Next::end) break;
      if (next == Next::nothing) continue;
      std::optional<Job> job = pop();
      if (job) carry_out(*job);
    }
    // What is left of the dropped is found by the next run, like any copy.
    for (int i = 0; i < kBuriedAtTheEnd && bury(); ++i) continue;
  }

  const DiskSettings settings;
  PlainIndex index;
  disk_cache::DiskAnswers answers;
  disk_cache::DiskHealth health;
  std::atomic<uint64_t> read_bytes{0}, written_bytes{0}, corrupt{0}, refused{0};

 private:
  enum class Next : uint8_t { job, nothing, end };
  // `nothing` but files to remove.
  Next wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty() || index.has_graves(); });
    return stopping_ ? Next::end : queue_.empty() ? Next::nothing : Next::job;
  }
  // Nothing: somebody else was faster.
  std::optional<Job> pop() {
    const std::scoped_lock lock(mutex_);
    std::optional<Job> job = stopping_ ? std::nullopt : queue_.pop();
    if (!job) return std::nullopt;
    if (const Put* put = std::get_if<Put>(&job->request); put != nullptr && !job->refused)
      waiting_ -= put->from.size();
    return job;
  }

  // Whether there was a file to remove. A file of that name may be made at the same time.
  bool bury() {
    const std::scoped_lock lock(names_);
    std::string name;
    if (!index.take_grave(name)) return false;
    ::unlinkat(folder_.get(), name.c_str(), 0);
    return true;
  }

  void carry_out(Job& job) {
    Ended ended{job.ticket, TierEnd::cancelled, 0};
    const bool wanted = answers.begin(job.ticket);
    if (Get* get = std::get_if<Get>(&job.request)) {
      if (wanted) ended.end = read(*get, ended.checksum);
      get->keeper.reset();
    } else {
      Put& put = std::get<Put>(job.request);
      if (wanted) ended.end = job.refused ? TierEnd::full : write(put, job);
      if (ended.end == TierEnd::full) ++refused;
      put.keeper.reset();
      index.forget_put(put.key);
    }
    answers.answer(ended);
  }

  TierEnd read(const Get& get, uint64_t& checksum) {
    const std::optional<PlainIndex::Copy> copy = index.get(get.key);
    if (!copy || copy->size != get.size || get.offset > get.size ||
        get.into.size() > get.size - get.offset)
      return TierEnd::miss;
    const auto start = std::chrono::steady_clock::now();
    const Descriptor file(::openat(folder_.get(), name_of_copy(get.key, copy->checksum).c_str(),
                                   O_RDONLY | O_CLOEXEC));
    const bool whole = get.into.size() == get.size;
    std::vector<std::byte> memory(whole ? 0 : get.size);
    const std::span<std::byte> bytes = whole ? get.into : std::span(memory);
    int error = file ? 0 : errno;
    struct stat status{};
    if (error == 0 && ::fstat(file.get(), &status) != 0) error = errno;
    const bool same_size = static_cast<uint64_t>(status.st_size) == get.size;
    if (error == 0 && same_size) {
      const int64_t got = read_at(file.get(), 0, bytes);
      if (got != static_cast<int64_t>(bytes.size())) error = got < 0 ? errno : EIO;
    }
    count_operation(settings.operations, Operation::read, start, error == 0 ? get.size : 0,
                    error != 0);
    if (error == ENOENT) {  // somebody has removed it; or it was dropped just now
      index.lose(get.key, copy->number);
      return TierEnd::miss;
    }
    if (error != 0) return TierEnd::failed;
    read_bytes += get.size;
    checksum = same_size ? checksum64(bytes) : ~copy->checksum;
    if (checksum != copy->checksum) {
      ++corrupt;
      if (index.lose(get.key, copy->number)) wake();
      return TierEnd::corrupt;
    }
    if (whole) return TierEnd::done;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(get.offset), get.into.size(),
                get.into.begin());
    checksum = checksum64(get.into);
    return TierEnd::done;
  }

  TierEnd write(const Put& put, const Job& job) {
    if (health.dead()) return TierEnd::failed;
    const uint64_t checksum = put.checksum ? *put.checksum : checksum64(put.from);
    switch (index.begin_put(put.key, job.drops, put.from.size(), checksum, job.who)) {
      case PlainIndex::Begun::dropped:
        return TierEnd::cancelled;
      case PlainIndex::Begun::full:
        return TierEnd::full;
      case PlainIndex::Begun::write:
        break;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::string name = name_of_copy(put.key, checksum);
    const int error = make_file(name, put.from);
    count_operation(settings.operations, Operation::write, start, error == 0 ? put.from.size() : 0,
                    error != 0);
    if (error != 0)
      health.die(fmt::format("cannot write to cache of files {}: {}; check its folder and its room",
                             settings.folder.native(), system_message(error)));
    index.end_put(put.key, error == 0);
    if (error != 0) return TierEnd::failed;
    written_bytes += put.from.size();
    return TierEnd::done;
  }
  // 0 or errno.
  int make_file(const std::string& name, std::span<const std::byte> bytes) {
    const std::string beside =
        fmt::format("{}/.{}-{}.tmp", name.substr(0, 2), ::getpid(), ++last_temporary_);
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    Descriptor file(::openat(folder_.get(), beside.c_str(), kFlags, 0666));
    if (!file && errno == ENOENT &&
        (::mkdirat(folder_.get(), name.substr(0, 2).c_str(), 0777) == 0 || errno == EEXIST))
      file = Descriptor(::openat(folder_.get(), beside.c_str(), kFlags, 0666));
    int error = file ? write_all(file.get(), bytes) : errno;
    if (error == 0) {
      const std::scoped_lock lock(names_);
      index.spare(name);
      if (::renameat(folder_.get(), beside.c_str(), folder_.get(), name.c_str()) != 0)
        error = errno;
    }
    if (error != 0) ::unlinkat(folder_.get(), beside.c_str(), 0);
    return error;
  }

  Descriptor folder_;
  std::mutex names_;  // held while a name is given or taken away; never by who asks
  std::atomic<uint64_t> last_temporary_{0};

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  TrafficQueue<Job> queue_;
  uint64_t waiting_ = 0;  // bytes of puts
  bool stopping_ = false;
};

class PlainFilesTier final : public Tier {
 public:
  explicit PlainFilesTier(std::shared_ptr<PlainFiles> files) : files_(std::move(files)) {}

  Result<void> start() {
    const unsigned threads =
        files_->settings.at_once == 0 ? kUsualThreads : files_->settings.at_once;
    try {
      while (threads_.size() < threads)
        threads_.emplace_back("foreload-disk", [files = files_] { files->run(); });
    } catch (const std::system_error&) {
      if (threads_.empty())
        return fail(ErrorKind::unreadable,
                    "cannot start threads for the cache of files; raise the limit of threads "
                    "(ulimit -u)");
    }
    return {};
  }
  ~PlainFilesTier() override {
    const auto deadline = std::chrono::steady_clock::now() + kFilesPatience;
    files_->stop();
    for (PatientThread& thread : threads_) thread.end_by(deadline);
    files_->answers.close();
  }

  std::string_view kind() const override { return "files"; }
  uint64_t capacity(uint64_t mean_size) const override {
    return static_cast<uint64_t>(static_cast<double>(files_->settings.budget) *
                                 static_cast<double>(mean_size) /
                                 static_cast<double>(cost_of(mean_size)));
  }

  Borrower lend(Answered answered, Run) override {
    return files_->answers.lend(std::move(answered), files_->index.lend());
  }
  void give_back(Borrower borrower) override {
    const auto deadline = std::chrono::steady_clock::now() + kFilesPatience;
    if (const auto bit = files_->answers.give_back(borrower, deadline))
      files_->index.give_back(*bit);
  }
  std::vector<FoundCopy> found() const override { return files_->index.found(); }
  void keep(Borrower borrower, const Wanted& wanted) override {
    files_->index.keep(files_->answers.bit_of(borrower), wanted);
  }
  void want(Borrower borrower, const CopyKey& key) override {
    files_->index.want(files_->answers.bit_of(borrower), key);
  }
  void submit(Borrower borrower, std::span<Get> gets, Traffic traffic) override {
    submit_all(borrower, gets, traffic);
  }
  void submit(Borrower borrower, std::span<Put> puts, Traffic traffic) override {
    submit_all(borrower, puts, traffic);
  }
  void cancel(Borrower borrower, uint64_t id) override { files_->answers.cancel(borrower, id); }
  void drop(const CopyKey& key) override {
    files_->index.drop(key);
    files_->wake();
  }
  std::shared_ptr<const void> pin(const CopyKey& key) override {
    const uint64_t number = files_->index.pin(key);
    if (number == 0) return nullptr;
    return {files_.get(), [files = std::weak_ptr(files_), key, number](const void*) {
              if (const auto still = files.lock()) still->index.unpin(key, number);
            }};
  }
  bool holds(const CopyKey& key) const override { return files_->index.get(key).has_value(); }

  uint64_t payload() const override { return files_->index.payload(); }
  void visit(const VisitCounter& visit) const override {
    visit("disk_bytes", files_->index.used());
    visit("read_bytes", files_->read_bytes);
    visit("written_bytes", files_->written_bytes);
    visit("reclaimed_bytes", files_->index.reclaimed());
    visit("corrupt_copies", files_->corrupt);
    visit("refused_puts", files_->refused);
  }
  std::optional<std::string> dead() const override { return files_->health.why(); }

 private:
  template <class Request>
  void submit_all(Borrower borrower, std::span<Request> requests, Traffic traffic) {
    uint64_t ticket = files_->answers.expect(borrower, requests);
    if (ticket == 0) return;
    const PlainIndex::Who who = files_->answers.bit_of(borrower);
    std::vector<PlainFiles::Job> jobs;
    for (Request& request : requests) {
      PlainFiles::Job& job = jobs.emplace_back();
      job.ticket = ticket++;
      job.who = who;
      if constexpr (std::is_same_v<Request, Put>) job.drops = files_->index.expect_put(request.key);
      job.request = std::move(request);
    }
    files_->push(std::move(jobs), traffic);
  }
  const std::shared_ptr<PlainFiles> files_;
  std::vector<PatientThread> threads_;
};

}  // namespace

Result<std::shared_ptr<Tier>> open_plain_files(DiskSettings settings, DiskSharing* sharing) {
  if (sharing != nullptr) *sharing = {{}, settings.budget, 0};
  auto files = std::make_shared<PlainFiles>(std::move(settings));
  FORELOAD_CHECK(files->open());
  auto tier = std::make_shared<PlainFilesTier>(std::move(files));
  FORELOAD_CHECK(tier->start());
  return tier;
}

}  // namespace foreload
