// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/http_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/hash.h"
#include "foreload/base/text.h"
#include "foreload/stores/curl.h"
#include "foreload/stores/folder_files.h"
#include "foreload/stores/parallel_loop.h"
#include "foreload/stores/read_ledger.h"
#include "foreload/stores/shared_source.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long kConnectPatience = 10'000;  // milliseconds
constexpr long kSlowPatience = 30;         // seconds without a byte; reads have deadlines
constexpr std::chrono::milliseconds kLongestPoll{1000};
constexpr const char* kWebChanged =
    "it changed since it was listed (size, or what the server says of it)";

// As in the path of a URL.
std::string escaped(std::string_view name) {
  return percent_encoded(name, "-._~/");
}

std::string unescaped(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, value, 16).ptr == &text[i + 1] + 2) {
      name += static_cast<char>(value);
      i += 2;
    } else if (text.substr(i).starts_with("&amp;")) {
      name += '&';
      i += 4;
    } else {
      name += text[i];
    }
  }
  return name;
}

Fault fault_of_status(long status) {
  if (status == 429 || status == 503) return Fault::throttled;
  if (status == 408 || status >= 500) return Fault::transient;
  return Fault::permanent;
}

Fault fault_of_code(int code) {
  constexpr std::array kHopeless{+curl::kBadUrl, +curl::kTooManyRedirections,
                                 +curl::kBadCertificate};
  return std::ranges::find(kHopeless, code) == kHopeless.end() ? Fault::transient
                                                               : Fault::permanent;
}

// What the headers of an answer say. Those before a redirection are forgotten.
struct Headers {
  uint64_t length = kUnknownSize;  // of the body
  uint64_t total = kUnknownSize;   // of the object, where the body is a range of it
  std::string tag;                 // what changes with the object; empty: the server does not say
  bool is_page = false;

  static size_t take(const char* line, size_t, size_t bytes, void* headers) {
    static_cast<Headers*>(headers)->add({line, bytes});
    return bytes;
  }
  uint64_t size() const { return total == kUnknownSize ? length : total; }
  uint64_t version() const {
    return tag.empty() ? 0 : Digester().add(size()).add(std::string_view(tag)).digest().low | 1;
  }

 private:
  void add(std::string_view line) {
    if (line.starts_with("HTTP/")) *this = {};
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string name = lower_case(line.substr(0, colon));
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    value = value.substr(0, value.find_last_not_of("\r\n ") + 1);
    if (name == "content-length") read_number(value, length);
    if (name == "content-range") read_number(value.substr(value.find('/') + 1), total);
    if (name == "etag" || (name == "last-modified" && tag.empty())) tag = value;
    if (name == "content-type") is_page = value.starts_with("text/html");
  }
  static void read_number(std::string_view text, uint64_t& number) {
    uint64_t read = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), read).ec == std::errc())
      number = read;
  }
};

void set_up(const curl::Library& library, curl::Easy* easy, const std::string& url,
            Headers& headers) {
  library.easy_reset(easy);  // keeps connections
  const auto set = [&](curl::Option option, auto value) {
    library.easy_setopt(easy, option, value);
  };
  set(curl::kUrl, url.c_str());
  set(curl::kNoSignal, 1L);
  set(curl::kFollow, 1L);
  set(curl::kMostRedirections, 8L);
  set(curl::kProtocols, curl::kHttpOrHttps);
  set(curl::kRedirectedProtocols, curl::kHttpOrHttps);
  set(curl::kUserAgent, "foreload");
  set(curl::kConnectMilliseconds, kConnectPatience);
  set(curl::kHeaderFunction, &Headers::take);
  set(curl::kHeaderData, static_cast<void*>(&headers));
}

long status_of(const curl::Library& library, curl::Easy* easy) {
  long status = 0;
  library.easy_getinfo(easy, curl::kStatus, &status);
  return status;
}

struct WebAnswer {
  long status = 0;      // 0: none came
  std::string failure;  // then
  Headers headers;
  std::string body;
  std::string url;  // after redirections

  bool good() const { return status >= 200 && status < 300; }
  std::string what() const {
    return status == 0 ? failure : fmt::format("the server says HTTP status {}", status);
  }
};

// One request after the other, by as many threads as like; connections are kept for the next one.
class WebRequests {
 public:
  explicit WebRequests(const curl::Library& library) : library_(library) {}
  ~WebRequests() {
    for (curl::Easy* easy : idle_) library_.easy_cleanup(easy);
  }
  WebRequests(const WebRequests&) = delete;
  WebRequests& operator=(const WebRequests&) = delete;

  WebAnswer head(const std::string& url) {
    return ask(url, [](const auto& set) { set(curl::kNoBody, 1L); });
  }
  // The body up to so many bytes.
  WebAnswer get(const std::string& url, size_t most = SIZE_MAX) {
    const std::string range = most == SIZE_MAX ? "" : fmt::format("0-{}", most - 1);
    return ask(
        url,
        [&](const auto& set) {
          if (!range.empty()) set(curl::kRange, range.c_str());
        },
        most);
  }
  WebAnswer put(const std::string& url, std::span<const std::byte> bytes) {
    return ask(url, [&](const auto& set) {
      set(curl::kUpload, 1L);
      set(curl::kUploadSize, static_cast<int64_t>(bytes.size()));
      set(curl::kReadFunction, &give);
      set(curl::kReadData, static_cast<void*>(&bytes));
    });
  }
  WebAnswer remove(const std::string& url) {
    return ask(url, [](const auto& set) { set(curl::kMethod, "DELETE"); });
  }

 private:
  struct Body {
    std::string& text;
    size_t most;
  };
  static size_t take(const char* data, size_t, size_t bytes, void* into) {
    Body& body = *static_cast<Body*>(into);
    const size_t taken = std::min(bytes, body.most - body.text.size());
    body.text.append(data, taken);
    return taken;  // less than there is: no more is wanted
  }
  static size_t give(char* into, size_t, size_t most, void* from) {
    auto& bytes = *static_cast<std::span<const std::byte>*>(from);
    const size_t given = std::min(most, bytes.size());
    std::memcpy(into, bytes.data(), given);
    bytes = bytes.subspan(given);
    return given;
  }

  template <class Configure>
  WebAnswer ask(const std::string& url, const Configure& configure, size_t most = SIZE_MAX) {
    WebAnswer answer;
    curl::Easy* const easy = take_handle();
    if (easy == nullptr) {
      answer.failure = "libcurl has no memory";
      return answer;
    }
    set_up(library_, easy, url, answer.headers);
    const auto set = [&](curl::Option option, auto value) {
      library_.easy_setopt(easy, option, value);
    };
    Body body{answer.body, most};
    set(curl::kWriteFunction, &take);
    set(curl::kWriteData, static_cast<void*>(&body));
    set(curl::kSlowBytes, 1L);
    set(curl::kSlowSeconds, kSlowPatience);
    configure(set);
    const int code = library_.easy_perform(easy);
    const bool enough = code == curl::kWriteError && answer.body.size() == most;
    if (code == curl::kOk || enough) {
      answer.status = status_of(library_, easy);
      const char* last = nullptr;
      library_.easy_getinfo(easy, curl::kEffectiveUrl, &last);
      answer.url = last == nullptr ? url : last;
    } else {
      answer.failure = library_.easy_strerror(code);
    }
    const std::scoped_lock lock(mutex_);
    idle_.push_back(easy);
    return answer;
  }
  curl::Easy* take_handle() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return library_.easy_init();
    curl::Easy* const easy = idle_.back();
    idle_.pop_back();
    return easy;
  }

  const curl::Library& library_;
  std::mutex mutex_;
  std::vector<curl::Easy*> idle_;
};

class WebReads;

// A read that libcurl works on.
struct WebRead {
  const WebReads& reads;
  ReadLedger::Ref owed;
  curl::Easy* easy = nullptr;
  std::string url;
  std::string range;  // empty: the whole object
  Headers headers;
  std::optional<Outcome> checked;  // with the first byte
  uint64_t got = 0;                // bytes
  size_t place = 0;                // that the next byte goes to
  uint64_t in_place = 0;
  SteadyTime start;

  void put(const char* data, size_t bytes) {
    const Destinations& into = owed->read().into;
    got += bytes;
    while (bytes > 0) {
      const Destination& to = into[place];
      const size_t fits = static_cast<size_t>(std::min<uint64_t>(bytes, to.length - in_place));
      std::memcpy(to.data + in_place, data, fits);
      data += fits;
      bytes -= fits;
      in_place += fits;
      if (in_place < to.length) continue;
      ++place;
      in_place = 0;
    }
  }
};

// Everything that the thread touches. It shares in it, so one that is stuck in a look-up of names
// outlives the source safely.
class WebReads {
 public:
  WebReads(const curl::Library& library, std::string base, SourceSettings settings,
           Source::Answered answered)
      : library_(library),
        base_(std::move(base)),
        settings_(std::move(settings)),
        ledger_(std::move(answered)),
        multi_(library.multi_init()) {
    library_.multi_setopt(multi_, curl::kMostConnections,
                          static_cast<long>(settings_.most_in_flight));
  }
  ~WebReads() { library_.multi_cleanup(multi_); }
  WebReads(const WebReads&) = delete;
  WebReads& operator=(const WebReads&) = delete;

  void submit(std::span<const SourceRead> reads) {
    ledger_.add(reads);
    library_.multi_wakeup(multi_);
  }
  void cancel(uint64_t id) {
    ledger_.ask_cancel(id);
    library_.multi_wakeup(multi_);
  }
  uint64_t abandoned() const { return ledger_.abandoned(); }
  std::string describe() const { return fmt::format("{} (libcurl)", base_); }

  void run();
  void stop() {
    ledger_.close();
    stopping_ = true;
    library_.multi_wakeup(multi_);
  }

 private:
  void begin(ReadLedger::Ref owed);
  void end(WebRead& read, int code);
  // Whether the answer is one, and of the version that was listed.
  Outcome check(const WebRead& read) const;
  void forget(WebRead& read);
  static size_t take(const char* data, size_t, size_t bytes, void* read);

  const curl::Library& library_;
  const std::string base_;
  const SourceSettings settings_;
  ReadLedger ledger_;
  curl::Multi* const multi_;
  std::unordered_map<const OwedRead*, std::unique_ptr<WebRead>> reads_;  // of the thread alone
  std::vector<curl::Easy*> idle_;                                        // likewise
  std::atomic<bool> stopping_ = false;
};

void WebReads::run() {
  while (!stopping_) {
    for (const ReadLedger::Ref& owed : ledger_.answer_due(Clock::now())) {
      const auto found = reads_.find(owed.get());
      if (found == reads_.end()) continue;
      forget(*found->second);
      ledger_.finish(owed, {Fault::cancelled, 0, {}});
      reads_.erase(found);
    }
    while (reads_.size() < settings_.most_in_flight) {
      ReadLedger::Ref owed = ledger_.start();
      if (!owed) break;
      begin(std::move(owed));
    }
    int running = 0;
    library_.multi_perform(multi_, &running);
    int left = 0;
    while (const curl::Message* message = library_.multi_info_read(multi_, &left)) {
      constexpr int kDone = 1;
      char* of = nullptr;
      library_.easy_getinfo(message->easy, curl::kPrivateOf, &of);
      if (message->what == kDone) end(*reinterpret_cast<WebRead*>(of), message->data.code);
    }
    if (ledger_.waiting() > 0 && reads_.size() < settings_.most_in_flight) continue;
    const auto now = Clock::now();  // what is due at once is due before all times
    const auto until = std::clamp(ledger_.next_due(), now, now + kLongestPoll) - now;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until).count();
    library_.multi_poll(multi_, nullptr, 0, static_cast<int>(std::max<int64_t>(wait, 0)), nullptr);
  }
  for (const auto& [owed, read] : reads_) {
    forget(*read);
    ledger_.finish(read->owed, {Fault::cancelled, 0, {}});
  }
  reads_.clear();
  for (curl::Easy* easy : idle_) library_.easy_cleanup(easy);
}

void WebReads::begin(ReadLedger::Ref owed) {
  const Extent extent = owed->read().extent;
  const ObjectCatalog& objects = *settings_.objects;
  const std::string_view flaw = name_flaw(objects.name(extent.object));
  if (!flaw.empty()) {
    ledger_.finish(owed, {Fault::permanent, 0, std::string(flaw)});
    return;
  }
  const uint64_t size = objects.size(extent.object);
  if (size != UINT64_MAX && (extent.length > size || extent.offset > size - extent.length)) {
    ledger_.finish(owed, {Fault::permanent, 0,
                          fmt::format("it has {} bytes, {} from {} on were asked for", size,
                                      extent.length, extent.offset)});
    return;
  }
  if (extent.length == 0) {
    ledger_.finish(owed, {});
    return;
  }
  auto read = std::make_unique<WebRead>(*this, std::move(owed));
  read->start = Clock::now();
  read->url = fmt::format("{}/{}", base_, escaped(objects.name(extent.object)));
  if (extent.length != size)
    read->range = fmt::format("{}-{}", extent.offset, extent.offset + extent.length - 1);
  if (idle_.empty()) idle_.push_back(library_.easy_init());
  read->easy = idle_.back();
  idle_.pop_back();
  set_up(library_, read->easy, read->url, read->headers);
  const auto set = [&](curl::Option option, auto value) {
    library_.easy_setopt(read->easy, option, value);
  };
  if (!read->range.empty()) set(curl::kRange, read->range.c_str());
  set(curl::kWriteFunction, &WebReads::take);
  set(curl::kWriteData, static_cast<void*>(read.get()));
  set(curl::kPrivate, static_cast<void*>(read.get()));
  library_.multi_add_handle(multi_, read->easy);
  reads_.emplace(read->owed.get(), std::move(read));
}

Outcome WebReads::check(const WebRead& read) const {
  const long status = status_of(library_, read.easy);
  const Extent& extent = read.owed->read().extent;
  const uint64_t version = settings_.objects->version(extent.object);
  if (status == 416) return {Fault::permanent, 0, "it has fewer bytes than were asked for"};
  if (status != 200 && status != 206)
    return {fault_of_status(status), 0, fmt::format("the server says HTTP status {}", status)};
  if (version != 0 && read.headers.size() != kUnknownSize && read.headers.version() != version)
    return {Fault::changed, 0, kWebChanged};
  if (status == 200 && !read.range.empty())
    return {Fault::permanent, 0,
            "the server gives whole objects only; use one that gives ranges of them"};
  return {};
}

size_t WebReads::take(const char* data, size_t, size_t bytes, void* of) {
  WebRead& read = *static_cast<WebRead*>(of);
  const SourceRead& wanted = read.owed->read();
  if (!read.checked) read.checked = read.reads.check(read);
  const bool whole_answer = read.checked->good() || read.checked->fault == Fault::changed;
  if (!read.checked->good() && !whole_answer && read.range.empty()) return bytes;  // in words
  if (!read.checked->good() || read.owed->answered()) return 0;
  const size_t taken =
      static_cast<size_t>(std::min<uint64_t>(bytes, wanted.extent.length - read.got));
  read.put(data, taken);
  return taken;
}

void WebReads::end(WebRead& read, int code) {
  const Extent extent = read.owed->read().extent;
  const bool answered = status_of(library_, read.easy) != 0;
  Outcome outcome = !answered ? Outcome{} : read.checked ? *read.checked : check(read);
  if (outcome.good() && read.got < extent.length) {
    if (code != curl::kOk) {
      long error = 0;
      library_.easy_getinfo(read.easy, curl::kErrno, &error);
      outcome = {fault_of_code(code), static_cast<int>(error),
                 fmt::format("{} while reading", library_.easy_strerror(code))};
    } else {
      outcome = {Fault::permanent, 0,
                 fmt::format("it gave {} bytes, {} were expected", read.got, extent.length)};
    }
  }
  count_operation(settings_.operations, Operation::read, read.start, read.got, !outcome.good());
  forget(read);
  const ReadLedger::Ref owed = std::move(read.owed);
  reads_.erase(owed.get());
  ledger_.finish(owed, std::move(outcome));
}

void WebReads::forget(WebRead& read) {
  library_.multi_remove_handle(multi_, read.easy);
  idle_.push_back(std::exchange(read.easy, nullptr));
}

class WebSink final : public Sink {
 public:
  WebSink(std::shared_ptr<WebRequests> requests, std::string url)
      : requests_(std::move(requests)), url_(std::move(url)) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<void> commit() override {
    const WebAnswer answer = requests_->put(url_, std::exchange(bytes_, {}));
    if (answer.good()) return {};
    return fail(ErrorKind::unreadable,
                fmt::format("cannot write {}: {}; check that the server allows PUT there", url_,
                            answer.what()));
  }
  void abort() override { bytes_.clear(); }

 private:
  const std::shared_ptr<WebRequests> requests_;
  const std::string url_;
  std::vector<std::byte> bytes_;
};

// Names that the links of a page lead to, right in its folder; those of folders end in '/'.
std::vector<std::string> names_in(std::string_view page) {
  std::vector<std::string> names;
  constexpr std::string_view kLink = "href=\"";
  for (size_t at = page.find(kLink); at != std::string_view::npos; at = page.find(kLink, at)) {
    at += kLink.size();
    std::string_view link = page.substr(at, page.find('"', at) - at);
    if (link.starts_with("./")) link.remove_prefix(2);
    const bool elsewhere = link.empty() || link.find_first_of("?#") != std::string_view::npos ||
                           link.find("://") != std::string_view::npos ||
                           link.find('/') < link.size() - 1;
    const std::string name = unescaped(link);
    if (!elsewhere && name != "../" && name != "/" && name != "..") names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class HttpStore final : public Store {
 public:
  HttpStore(const curl::Library& library, std::string given)
      : library_(library),
        given_(std::move(given)),
        base_(base_of(given_)),
        requests_(std::make_shared<WebRequests>(library)) {}

  std::string uri() const override { return base_; }
  std::string where() const override { return given_; }
  Result<std::optional<std::string>> first_bytes(size_t most) const override;
  Result<std::vector<StoredFolder>> list(std::string_view folder,
                                         const StoreCall& call) const override;
  Result<void> stat(std::span<StoredObject> objects, const StoreCall& call,
                    const Refuse& refuse) const override;
  Result<std::optional<std::string>> changed(std::span<const StoredFolder> folders,
                                             const StoreCall& call) const override;
  Result<std::unique_ptr<Source>> open(SourceSettings settings,
                                       Source::Answered answered) const override;
  Result<std::unique_ptr<Sink>> create(std::string_view name) const override;
  Result<void> remove(std::string_view name) const override;

 private:
  // REQUIRES: there is a host. Scheme and host in lower case, no '/' at the end.
  static std::string base_of(std::string_view uri) {
    const size_t host = std::min(uri.find('/', uri.find("://") + 3), uri.size());
    std::string base = lower_case(uri.substr(0, host)) + std::string(uri.substr(host));
    while (base.ends_with('/')) base.pop_back();
    return base;
  }
  std::string url_of(std::string_view name) const {
    return fmt::format("{}/{}", base_, escaped(name));
  }
  // What is in the folder, as its page says, and a number that changes with that.
  Result<std::vector<std::string>> page_of(std::string_view folder, const StoreCall& call,
                                           uint64_t& time) const;
  const curl::Library& library_;
  const std::string given_;
  const std::string base_;
  const std::shared_ptr<WebRequests> requests_;
};

Result<std::optional<std::string>> HttpStore::first_bytes(size_t most) const {
  if (given_.ends_with('/')) return std::nullopt;
  WebAnswer answer = requests_->get(base_, most);
  if (answer.status == 404 || (answer.good() && answer.url.ends_with('/'))) return std::nullopt;
  if (answer.status == 416) return std::string();  // it has no bytes
  if (answer.good()) return std::move(answer.body);
  return fail(ErrorKind::unreadable,
              fmt::format("cannot read data set {}: {}; check the address", given_, answer.what()));
}

Result<std::vector<std::string>> HttpStore::page_of(std::string_view folder, const StoreCall& call,
                                                    uint64_t& time) const {
  const auto begin = Clock::now();
  const std::string url = folder.empty() ? base_ + "/" : url_of(folder) + "/";
  const WebAnswer answer = requests_->get(url);
  count_operation(call.operations, Operation::list, begin, 0, !answer.good());
  if (!answer.good())
    return fail(ErrorKind::unreadable,
                fmt::format("cannot list folder {}: {}; check the address, or give a file list",
                            url, answer.what()));
  if (!answer.headers.is_page)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot list folder {}: the server has no page with links for it; turn "
                            "that on (nginx: autoindex on), or give a file list",
                            url));
  std::vector<std::string> names = names_in(answer.body);
  Digester digester;
  for (const std::string& name : names) digester.add(std::string_view(name));
  time = digester.digest().low;
  return names;
}

Result<std::vector<StoredFolder>> HttpStore::list(std::string_view folder,
                                                  const StoreCall& call) const {
  constexpr size_t kDeepest = 64;  // a page may lead back to itself
  std::vector<StoredFolder> found{{std::string(folder)}};
  size_t level = 0;
  for (size_t first = 0; first < found.size(); ++level) {
    if (level == kDeepest)
      return fail(ErrorKind::invalid,
                  fmt::format("cannot list folder {}: its folders are more than {} deep; give a "
                              "file list",
                              given_, kDeepest));
    const size_t last = found.size();
    std::vector<std::vector<std::string>> names(last - first);
    const auto read_page = [&](size_t i, const auto&) -> std::optional<Error> {
      auto page = page_of(found[first + i].name, call, found[first + i].time);
      if (!page) return std::move(page).error();
      names[i] = std::move(*page);
      return std::nullopt;
    };
    FORELOAD_CHECK(for_all(last - first, read_page, given_, call));
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string parent = found[first + i].name.empty() ? "" : found[first + i].name + "/";
      for (std::string& name : names[i]) {
        if (name.ends_with('/'))
          found.push_back({parent + name.substr(0, name.size() - 1)});
        else
          found[first + i].objects.push_back({parent + name});
      }
    }
    first = last;
  }
  return found;
}

Result<void> HttpStore::stat(std::span<StoredObject> objects, const StoreCall& call,
                             const Refuse& refuse) const {
  const auto ask = [&](size_t i, const auto&) -> std::optional<Error> {
    const auto begin = Clock::now();
    const WebAnswer answer = requests_->head(url_of(objects[i].name));
    count_operation(call.operations, Operation::stat, begin, 0, !answer.good());
    if (!answer.good()) return refuse(i, answer.what());
    if (answer.headers.length == kUnknownSize)
      return refuse(i, "the server does not say how large it is");
    objects[i].size = answer.headers.length;
    objects[i].version = answer.headers.version();
    return std::nullopt;
  };
  return for_all(objects.size(), ask, given_, call, objects.size());
}

Result<std::optional<std::string>> HttpStore::changed(std::span<const StoredFolder> folders,
                                                      const StoreCall& call) const {
  return first_changed(folders, given_, call, [&](const StoredFolder& folder) -> Result<bool> {
    uint64_t time = 0;
    FORELOAD_CHECK(page_of(folder.name, call, time));
    return time != folder.time;
  });
}

Result<std::unique_ptr<Source>> HttpStore::open(SourceSettings settings,
                                                Source::Answered answered) const {
  if (!settings.objects)
    return fail(ErrorKind::invalid,
                fmt::format("cannot read from {}: no catalog of its objects was given", given_));
  settings.most_in_flight = std::max(settings.most_in_flight, 1u);
  try {
    return std::make_unique<SharedSource<WebReads>>(
        "foreload-web",
        std::make_shared<WebReads>(library_, base_, std::move(settings), std::move(answered)));
  } catch (const std::system_error& error) {
    return fail(
        ErrorKind::unreadable,
        fmt::format("cannot read from {}: no thread can be started ({}); raise the limit of "
                    "processes",
                    given_, error.code().message()));
  }
}

Result<std::unique_ptr<Sink>> HttpStore::create(std::string_view name) const {
  FORELOAD_CHECK(check_name(name));
  return std::make_unique<WebSink>(requests_, url_of(name));
}

Result<void> HttpStore::remove(std::string_view name) const {
  FORELOAD_CHECK(check_name(name));
  const WebAnswer answer = requests_->remove(url_of(name));
  if (answer.good()) return {};
  return fail(ErrorKind::unreadable,
              fmt::format("cannot remove {}: {}; check the name", url_of(name), answer.what()));
}

}  // namespace

Result<std::unique_ptr<Store>> open_http_store(const std::string& uri) {
  const size_t host = uri.find("://") + 3;
  if (host == uri.size() || uri[host] == '/') {
    return fail(ErrorKind::invalid,
                fmt::format("cannot read {} as a data set: it names no host; give an address like "
                            "http://host/folder/",
                            uri));
  }
  const auto library = curl::library();
  if (!library)
    return fail(library.error().kind,
                fmt::format("cannot read {} as a data set: {}", uri, library.error().message));
  return std::make_unique<HttpStore>(**library, uri);
}

}  // namespace foreload
