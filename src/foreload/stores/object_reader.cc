// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/object_reader.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

constexpr int kTries = 3;
constexpr std::chrono::seconds kReadDeadline{30};

class OneObject final : public ObjectCatalog {
 public:
  explicit OneObject(StoredObject object) : object_(std::move(object)) {}
  std::string_view name(uint32_t) const override { return object_.name; }
  uint64_t size(uint32_t) const override { return object_.size; }
  uint64_t version(uint32_t) const override { return object_.version; }

 private:
  const StoredObject object_;
};

// Counts answers; what went wrong first.
struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  size_t count = 0;
  SourceAnswer wrong;

  void hear(SourceAnswer answer) {
    const std::scoped_lock lock(mutex);
    ++count;
    if (wrong.fault == Fault::none) wrong = std::move(answer);
    changed.notify_one();
  }
};

}  // namespace

Result<ObjectReader> ObjectReader::open(std::shared_ptr<const Store> store, std::string name,
                                        const StoreCall& call) {
  StoredObject object{std::move(name)};
  FORELOAD_CHECK(store->stat({&object, 1}, call, [&](size_t, const std::string& why) {
    return Error{ErrorKind::unreadable, fmt::format("cannot read {} in {}: {}; check the path",
                                                    object.name, store->where(), why)};
  }));
  return ObjectReader(std::move(store), std::move(object), call);
}

Result<std::vector<std::string>> ObjectReader::read(const std::vector<Range>& ranges) const {
  std::string why;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Heard heard;
    SourceSettings settings;
    settings.objects = std::make_shared<OneObject>(object_);
    settings.operations = call_.operations;
    FORELOAD_TRY(std::unique_ptr<Source> source,
                 store_->open(std::move(settings),
                              [&heard](SourceAnswer answer) { heard.hear(std::move(answer)); }));
    // Who is abandoned may still write into it.
    auto memory = std::make_shared<std::vector<std::string>>();
    std::vector<SourceRead> reads;
    const SteadyTime deadline = std::chrono::steady_clock::now() + kReadDeadline;
    for (const Range& range : ranges) memory->emplace_back(range.length, '\0');
    for (size_t i = 0; i < ranges.size(); ++i)
      reads.push_back({i,
                       {0, ranges[i].offset, ranges[i].length},
                       Destination{reinterpret_cast<std::byte*>((*memory)[i].data()), memory},
                       deadline});
    source->submit(reads);
    reads.clear();
    std::unique_lock lock(heard.mutex);
    heard.changed.wait(lock, [&] { return heard.count == ranges.size(); });
    lock.unlock();
    source.reset();
    if (heard.wrong.fault == Fault::none) return std::move(*memory);
    why = heard.wrong.what.empty() ? std::string(name_of(heard.wrong.fault)) : heard.wrong.what;
    if (heard.wrong.fault == Fault::permanent || heard.wrong.fault == Fault::changed) break;
  }
  return fail(ErrorKind::unreadable, fmt::format("cannot read {} in {}: {}; check the file",
                                                 object_.name, store_->where(), why));
}

}  // namespace foreload
