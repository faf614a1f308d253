// SPDX-License-Identifier: Apache-2.0
//
// The source's part of the probe: real samples through the source that a run reads with.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/cpus.h"
#include "foreload/formats/index_catalog.h"
#include "foreload/formats/saved_index.h"
#include "foreload/loader/probe.h"
#include "foreload/loader/probe_level.h"
#include "foreload/plan/order.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using namespace probing;

// Of a large sample only the start is read, so that a level does not take minutes.
constexpr uint64_t kMost = uint64_t{1} << 20;
constexpr std::chrono::seconds kDeadline{20};

class SourceProbe {
 public:
  SourceProbe(std::shared_ptr<const DatasetIndex> index, std::shared_ptr<const EpochOrder> order)
      : index_(std::move(index)), order_(std::move(order)) {}

  Result<void> open(const Store& store) {
    SourceSettings settings;
    settings.objects = std::make_shared<IndexCatalog>(index_);
    settings.drop_page_cache = true;  // what is read here is of no use to anybody
    FORELOAD_TRY(source_, store.open(settings, [this](SourceAnswer answer) {
      const std::scoped_lock lock(mutex_);
      answers_.push_back({std::move(answer), Clock::now()});
      answered_.notify_one();
    }));
    return {};
  }

  // Seconds that the start of a sample takes, one at a time: the median over `time`, or longer
  // where that would be only a few.
  Result<double> latency(Seconds time) {
    std::vector<double> times;
    constexpr size_t kFew = 9;
    const auto start = Clock::now();
    const auto over = [start](Seconds limit) { return Clock::now() - start >= limit; };
    do {
      submit(0, 4096);
      FORELOAD_TRY(const Finished finished, next());
      times.push_back(Seconds(finished.end - finished.begin).count());
    } while (!over(time) || (times.size() < kFew && !over(4 * time)));
    std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
    return times[times.size() / 2];
  }

  // Bytes per second with `level` reads in flight, over `time` or longer where that would be only a
  // few reads. The first fifth is not counted.
  Result<double> rate(unsigned level, Seconds time) {
    const auto start = Clock::now();
    const auto enough = start + std::chrono::duration_cast<Clock::duration>(time);
    const auto last = start + std::chrono::duration_cast<Clock::duration>(3 * time);
    std::vector<Finished> finished;
    for (unsigned slot = 0; slot < level; ++slot) submit(slot, kMost);
    unsigned in_flight = level;
    std::optional<Clock::time_point> end;
    while (in_flight > 0) {
      FORELOAD_TRY(Finished one, next());
      finished.push_back(one);
      const bool full = one.end >= enough && finished.size() >= 3 * level;
      if (!end && (full || one.end >= last)) end = one.end;
      if (end) {
        --in_flight;
      } else {
        submit(one.slot, kMost);
      }
    }
    const TimeWindow window{start + (*end - start) / 5, *end};
    double bytes = 0;
    for (const Finished& one : finished) bytes += window.share(one.begin, one.end, one.bytes);
    return bytes / std::max(window.seconds(), 1e-9);
  }

  // How often the data set was read through.
  uint64_t rounds() const { return (position_ + index_->samples() - 1) / index_->samples(); }
  uint64_t bytes() const { return bytes_; }  // that were read

 private:
  struct Slot {
    std::shared_ptr<std::byte[]> memory;
    uint64_t bytes = 0;
    uint64_t sample = 0;
    Clock::time_point begin;
  };
  struct Answer {
    SourceAnswer what;
    Clock::time_point at;
  };
  struct Finished {
    unsigned slot;
    uint64_t bytes;
    Clock::time_point begin;
    Clock::time_point end;
  };

  void submit(unsigned number, uint64_t most) {
    Slot& slot = slots_[number];
    if (!slot.memory) slot.memory = std::make_shared<std::byte[]>(kMost);
    order_->read(position_++ % index_->samples(), {&slot.sample, 1});
    const Part part = index_->part(slot.sample, 0);
    slot.bytes = std::min({part.length, most, kMost});
    slot.begin = Clock::now();
    const SourceRead read{number,
                          {part.object, part.offset, slot.bytes},
                          Destination{slot.memory.get(), slot.memory},
                          slot.begin + kDeadline};
    source_->submit({&read, 1});
  }

  Result<Finished> next() {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [this] { return !answers_.empty(); });
    const Answer answer = std::move(answers_.back());
    answers_.pop_back();
    lock.unlock();
    const auto number = static_cast<unsigned>(answer.what.id);
    const Slot& slot = slots_[number];
    if (answer.what.fault != Fault::none)
      return fail(ErrorKind::unreadable,
                  fmt::format("cannot measure with sample {} ({}): {}; repair it, or list the data "
                              "set again",
                              slot.sample, index_->sample_name(slot.sample), answer.what.what));
    bytes_ += slot.bytes;
    return Finished{number, slot.bytes, slot.begin, answer.at};
  }

  std::shared_ptr<const DatasetIndex> index_;
  std::shared_ptr<const EpochOrder> order_;
  uint64_t position_ = 0;
  uint64_t bytes_ = 0;
  std::array<Slot, kLevels.back()> slots_;  // by id of the read
  std::mutex mutex_;                        // guards answers_
  std::condition_variable answered_;
  std::vector<Answer> answers_;
  std::unique_ptr<Source> source_;  // last: it answers until it is gone
};

}  // namespace

Result<DeviceProfile> probe_source(const fs::path& dataset, const ProbeSettings& settings) {
  ListingOptions listing;
  listing.extensions = settings.extensions;
  if (settings.progress)
    listing.progress = [&settings](uint64_t, uint64_t) { return settings.progress(0, 0); };
  FORELOAD_TRY(OpenedIndex opened,
               open_saved_index({{dataset.native()}, settings.index, {}, false}, listing));
  const auto index = std::make_shared<const DatasetIndex>(std::move(opened.index));
  FORELOAD_TRY(const auto order, make_order({"feistel"}, index->samples(), settings.seed));
  FORELOAD_TRY(std::shared_ptr<const EpochOrder> shuffled, order->epoch(0));
  SourceProbe probe(index, std::move(shuffled));
  FORELOAD_CHECK(probe.open(*opened.store));

  const std::string whole = whole_path(opened.store->where());
  ProbeSteps steps(settings, whole, 1 + kLevels.size());
  DeviceProfile device{.name = "source " + whole, .kind = DeviceKind::source, .path = whole};
  FORELOAD_CHECK(steps.begin());
  FORELOAD_TRY(device.latency, probe.latency(steps.share() / 4));
  std::vector<Curve::Point> points;
  const uint64_t bytes_before = probe.bytes();
  const double cpu_before = cpu_seconds();
  for (const unsigned level : kLevels) {
    FORELOAD_CHECK(steps.begin());
    FORELOAD_TRY(const double rate, probe.rate(level, steps.share()));
    points.push_back({static_cast<double>(level), rate});
  }
  device.cpu_rate = static_cast<double>(probe.bytes() - bytes_before) /
                    std::max(cpu_seconds() - cpu_before, 1e-6);
  FORELOAD_TRY(device.curve, Curve::create(std::move(points)));
  if (probe.rounds() > 1)
    device.note = fmt::format("samples were read {} times, so caches may make it look faster",
                              probe.rounds());
  device.measured_at = now_in_utc();
  return device;
}

}  // namespace foreload
