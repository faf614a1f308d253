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

Result<std::vector<std::string>> read_extents(const Store& store,
                                              std::shared_ptr<const ObjectCatalog> objects,
                                              std::span<const Extent> extents,
                                              std::shared_ptr<Operations> operations) {
  SourceAnswer wrong;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Heard heard;
    SourceSettings settings;
    settings.objects = objects;
    settings.operations = operations;
    FORELOAD_TRY(std::unique_ptr<Source> source,
                 store.open(std::move(settings),
                            [&heard](SourceAnswer answer) { heard.hear(std::move(answer)); }));
    // Who is abandoned may still write into it.
    auto memory = std::make_shared<std::vector<std::string>>();
    std::vector<SourceRead> reads;
    const SteadyTime deadline = std::chrono::steady_clock::now() + kReadDeadline;
    for (const Extent& extent : extents) memory->emplace_back(extent.length, '\0');
    for (size_t i = 0; i < extents.size(); ++i)
      reads.push_back({i, extents[i],
                       Destination{reinterpret_cast<std::byte*>((*memory)[i].data()), memory},
                       deadline});
    source->submit(reads);
    reads.clear();
    std::unique_lock lock(heard.mutex);
    heard.changed.wait(lock, [&] { return heard.count == extents.size(); });
    lock.unlock();
    source.reset();
    if (heard.wrong.fault == Fault::none) return std::move(*memory);
    wrong = std::move(heard.wrong);
    if (wrong.fault == Fault::permanent || wrong.fault == Fault::changed) break;
  }
  return fail(ErrorKind::unreadable,
              fmt::format("cannot read {} in {}: {}; check the file",
                          objects->name(extents[wrong.id].object), store.where(),
                          wrong.what.empty() ? std::string(name_of(wrong.fault)) : wrong.what));
}

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
  std::vector<Extent> extents;
  for (const Range& range : ranges) extents.push_back({0, range.offset, range.length});
  return read_extents(*store_, std::make_shared<OneObject>(object_), extents, call_.operations);
}

}  // namespace foreload
