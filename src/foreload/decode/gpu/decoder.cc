// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/gpu/decoder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/own_thread.h"
#include "foreload/decode/resample_weights.h"

namespace foreload::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// Images are decoded in multiples of this, so that the number seldom grows.
constexpr size_t kImagesStep = 16;
constexpr unsigned kThreads = 256;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

uint64_t pitch_of(ImageSize image) {
  return round_up(uint64_t{image.width} * 3, 64);
}

uint64_t image_bytes(ImageSize image) {
  return round_up(pitch_of(image) * image.height, 256);
}

// Where the pixels of a window come from, except for addresses of memory.
ResizeItem item_of(const ParcelHeader& parcel, const OutputForm& form) {
  ResizeItem item;
  item.pitch = static_cast<uint32_t>(pitch_of(parcel.image));
  item.crop_width = parcel.crop.width;
  item.crop_height = parcel.crop.height;
  item.resized_width = parcel.resized.width;
  item.resized_height = parcel.resized.height;
  item.left = parcel.left;
  item.top = parcel.top;
  item.width = parcel.size.width;
  item.height = parcel.size.height;
  const auto resized = static_cast<int64_t>(parcel.resized.height);
  const int64_t begin = std::clamp<int64_t>(parcel.top, 0, resized);
  const int64_t end = std::clamp<int64_t>(int64_t{parcel.top} + parcel.size.height, 0, resized);
  if (begin < end) {
    const Axis axis{parcel.crop.height,
                    0,
                    static_cast<double>(parcel.crop.height),
                    parcel.resized.height,
                    static_cast<uint32_t>(begin),
                    static_cast<uint32_t>(end - begin)};
    const InputRange rows = inputs_of(axis, Interpolation::bilinear);
    item.first_row = rows.begin;
    item.rows = rows.end - rows.begin;
  }
  const bool planes = form.layout == Layout::chw;
  item.pixel_step = planes ? 1 : 3;
  item.row_step = item.pixel_step * item.width;
  item.channel_step = planes ? item.width * item.height : 1;
  item.flip = parcel.flip;
  item.fill = parcel.fill[0] | uint32_t{parcel.fill[1]} << 8 | uint32_t{parcel.fill[2]} << 16;
  return item;
}

uint64_t middle_bytes(const ResizeItem& item) {
  return round_up(uint64_t{item.rows} * item.width * 3, 256);
}

// A context is made current for a thread: the caller's must keep the one it has.
template <class Work>
void on_own_thread(Work work) {
  start_own_thread("foreload-gpu", std::move(work)).join();
}

unsigned taps_of(uint32_t inputs, uint32_t outputs) {
  const double support = std::max(1.0, static_cast<double>(inputs) / outputs);
  return static_cast<unsigned>(std::ceil(support)) * 2 + 1;
}

}  // namespace

class Decoder::Job {
 public:
  explicit Job(const PackedBatch& packed) : batch(packed) {}

  const PackedBatch batch;
  void* copied = nullptr;   // event behind the copy of the host's places
  void* decoded = nullptr;  // event behind the last pixel
  bool given = false;       // to the GPU, or failed
  std::optional<Error> failed;
};

Result<std::unique_ptr<Decoder>> Decoder::open(const DecoderSettings& settings,
                                               std::shared_ptr<const PackingRule> rule) {
  std::unique_ptr<Decoder> decoder(new Decoder);
  decoder->rule_ = std::move(rule);
  Result<void> started;
  on_own_thread([&] { started = decoder->start(settings); });
  FORELOAD_CHECK(started);
  decoder->thread_ = start_own_thread("foreload-gpu", [raw = decoder.get()] { raw->work(); });
  return decoder;
}

Result<void> Decoder::start(const DecoderSettings& settings) {
  FORELOAD_TRY(cuda_, CudaDriver::load());
  FORELOAD_TRY(nvjpeg_, NvJpeg::load(settings.nvjpeg));
  FORELOAD_TRY(const Nvrtc nvrtc, Nvrtc::load(settings.nvrtc));
  int device = 0;
  FORELOAD_CHECK(cuda_.check(cuda_.get_device(&device, settings.device), "finding the device"));
  FORELOAD_CHECK(cuda_.check(cuda_.retain_context(&context_, device), "opening the device"));
  device_ = device;
  FORELOAD_CHECK(cuda_.check(cuda_.use_context(context_), "using the device"));
  int major = 0, minor = 0;
  cuda_.get_attribute(&major, CudaDriver::kMajorAttribute, device);
  cuda_.get_attribute(&minor, CudaDriver::kMinorAttribute, device);
  FORELOAD_TRY(const std::string code,
               nvrtc.compile(kResizeSource, fmt::format("sm_{}{}", major, minor)));
  FORELOAD_CHECK(cuda_.check(cuda_.load_module(&module_, code.data()), "loading kernels"));
  FORELOAD_CHECK(
      cuda_.check(cuda_.find_kernel(&columns_, module_, kColumnsKernel), "finding a kernel"));
  FORELOAD_CHECK(cuda_.check(cuda_.find_kernel(&rows_, module_, kRowsKernel), "finding a kernel"));
  int lowest = 0, highest = 0;
  cuda_.get_priorities(&lowest, &highest);
  // First in line: what is done here is short, and training waits for it if it comes late.
  FORELOAD_CHECK(
      cuda_.check(cuda_.create_stream(&stream_, CudaDriver::kNotWithDefaultStream, highest),
                  "making a stream"));
  device_memory_ = std::make_unique<MemoryPool>(cuda_, MemoryPool::Kind::device, stream_);
  pinned_memory_ = std::make_unique<MemoryPool>(cuda_, MemoryPool::Kind::pinned, stream_);
  in_hardware_ = create_nvjpeg(NvJpeg::kBackendHardware) == NvJpeg::kOk;
  int status = in_hardware_ ? NvJpeg::kOk : create_nvjpeg(NvJpeg::kBackendDefault);
  if (status == NvJpeg::kOk) status = nvjpeg_.create_state(handle_, &state_);
  if (status != NvJpeg::kOk) {
    return fail(ErrorKind::unreadable,
                fmt::format("nvJPEG does not start on GPU {} (status {}): decode on the CPU",
                            settings.device, status));
  }
  return {};
}

int Decoder::create_nvjpeg(int backend) {
  NvJpeg::Allocator device{MemoryPool::take_from, MemoryPool::give_back_to, device_memory_.get()};
  NvJpeg::Allocator pinned{MemoryPool::take_from, MemoryPool::give_back_to, pinned_memory_.get()};
  return nvjpeg_.create(backend, &device, &pinned, NvJpeg::kSmoothUpsampling, &handle_);
}

Decoder::~Decoder() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  if (context_ != nullptr) on_own_thread([this] { close(); });
}

void Decoder::close() {
  cuda_.use_context(context_);
  if (stream_ != nullptr) cuda_.wait_for_stream(stream_);
  if (state_ != nullptr) nvjpeg_.destroy_state(state_);
  if (handle_ != nullptr) nvjpeg_.destroy(handle_);
  device_memory_.reset();
  pinned_memory_.reset();
  if (stream_ != nullptr) cuda_.destroy_stream(stream_);
  if (module_ != nullptr) cuda_.unload_module(module_);
  cuda_.release_context(device_);
}

Result<std::shared_ptr<Decoder::Job>> Decoder::submit(const PackedBatch& batch, void* copies) {
  auto job = std::make_shared<Job>(batch);
  FORELOAD_CHECK(
      cuda_.check(cuda_.create_event(&job->copied, CudaDriver::kNoTiming), "making an event"));
  FORELOAD_CHECK(
      cuda_.check(cuda_.create_event(&job->decoded, CudaDriver::kNoTiming), "making an event"));
  FORELOAD_CHECK(cuda_.check(cuda_.record_event(job->copied, copies), "recording an event"));
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  changed_.notify_all();
  return job;
}

Result<void> Decoder::hand_over(Job& job, void* stream) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&job] { return job.given; });
  if (job.failed) return tl::unexpected(*job.failed);
  return cuda_.check(cuda_.stream_waits(stream, job.decoded, 0), "waiting for a batch");
}

void Decoder::finish(Job& job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&job] { return job.given; });
  lock.unlock();
  cuda_.wait_for_event(job.decoded);
  cuda_.destroy_event(std::exchange(job.decoded, nullptr));
  cuda_.destroy_event(std::exchange(job.copied, nullptr));
}

DecoderTotals Decoder::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

void Decoder::work() {
  cuda_.use_context(context_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::shared_ptr<Job> job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    const auto begin = Clock::now();
    auto done = run(*job);
    cuda_.record_event(job->decoded, stream_);
    const std::chrono::duration<double> took = Clock::now() - begin;
    lock.lock();
    if (!done) job->failed = done.error();
    job->given = true;
    totals_.seconds += took.count();
    totals_.device_bytes = device_memory_->bytes();
    changed_.notify_all();
  }
}

Result<void> Decoder::make_room(uint64_t bytes) {
  if (bytes <= room_bytes_) return {};
  if (room_ != 0) device_memory_->give_back(reinterpret_cast<void*>(room_));
  room_ = reinterpret_cast<DeviceAddress>(device_memory_->take(bytes));
  room_bytes_ = room_ == 0 ? 0 : bytes;
  if (room_ != 0) return {};
  return fail(ErrorKind::invalid, fmt::format("cannot get {} of GPU memory for images: leave more "
                                              "of it free, or decode on the CPU",
                                              format_bytes(bytes)));
}

Result<void> Decoder::run(Job& job) {
  const uint64_t place = job.batch.form.bytes();
  std::vector<Parcel> parcels;
  std::vector<ResizeItem> items;
  std::vector<DeviceAddress> images;
  uint64_t bytes = 0;
  for (uint64_t at = 0; at + place <= job.batch.host.size(); at += place) {
    const auto parcel = rule_->find(job.batch.host.subspan(at, place));
    if (!parcel) continue;
    parcels.push_back(*parcel);
    items.push_back(item_of(parcel->header, job.batch.form));
    items.back().out = job.batch.device + at;
    images.push_back(bytes);
    bytes += image_bytes(parcel->header.image);
  }
  if (parcels.empty()) return {};
  // nvJPEG prepares anew for another number of images: the last one is decoded again, to a place
  // nobody reads, until there are as many as ever before.
  const size_t wanted = std::max<size_t>(begun_for_, round_up(parcels.size(), kImagesStep));
  parcels.resize(wanted, Parcel(parcels.back()));
  images.resize(wanted, bytes);
  bytes += image_bytes(parcels.back().header.image);
  for (ResizeItem& item : items) {
    item.middle = bytes;
    bytes += middle_bytes(item);
  }
  FORELOAD_CHECK(make_room(bytes + items.size() * sizeof(ResizeItem)));
  for (DeviceAddress& image : images) image += room_;
  for (size_t i = 0; i < items.size(); ++i) {
    const Region& crop = parcels[i].header.crop;
    items[i].image = images[i] + uint64_t{crop.y} * items[i].pitch + uint64_t{crop.x} * 3;
    items[i].middle += room_;
  }
  FORELOAD_CHECK(decode_files(parcels, images));
  FORELOAD_CHECK(cuda_.check(
      cuda_.copy_to_device(room_ + bytes, items.data(), items.size() * sizeof(ResizeItem), stream_),
      "copying"));
  FORELOAD_CHECK(resize(job, items, room_ + bytes));
  const std::lock_guard lock(mutex_);
  totals_.images += items.size();
  return {};
}

Result<void> Decoder::decode_files(const std::vector<Parcel>& parcels,
                                   const std::vector<DeviceAddress>& images) {
  std::vector<const unsigned char*> files;
  std::vector<size_t> sizes;
  std::vector<NvJpeg::Image> into;
  for (size_t i = 0; i < parcels.size(); ++i) {
    files.push_back(reinterpret_cast<const unsigned char*>(parcels[i].file.data()));
    sizes.push_back(parcels[i].file.size());
    NvJpeg::Image image{};
    image.channel[0] = reinterpret_cast<unsigned char*>(images[i]);
    image.pitch[0] = pitch_of(parcels[i].header.image);
    into.push_back(image);
  }
  // The JPEG hardware is reported not to wait for what is on the stream (torchcodec#1634): images
  // of the batch before, which lie in the same place, must have been resized.
  FORELOAD_CHECK(cuda_.check(cuda_.wait_for_stream(stream_), "waiting for a batch"));
  int status = NvJpeg::kOk;
  if (begun_for_ != parcels.size()) {
    status = nvjpeg_.begin_batches(handle_, state_, static_cast<int>(parcels.size()), 1,
                                   NvJpeg::kInterleavedRgb);
    begun_for_ = status == NvJpeg::kOk ? parcels.size() : 0;
  }
  if (status == NvJpeg::kOk) {
    status =
        nvjpeg_.decode_batch(handle_, state_, files.data(), sizes.data(), into.data(), stream_);
  }
  if (status == NvJpeg::kOk) return {};
  begun_for_ = 0;
  return fail(
      ErrorKind::invalid,
      fmt::format("nvJPEG cannot decode a batch of {} images (status {}): decode on the CPU",
                  parcels.size(), status));
}

Result<void> Decoder::resize(const Job& job, const std::vector<ResizeItem>& items,
                             DeviceAddress items_at) {
  uint32_t rows = 1, height = 1;
  unsigned taps = 1;
  for (const ResizeItem& item : items) {
    rows = std::max(rows, item.rows);
    height = std::max(height, item.height);
    taps = std::max(taps, taps_of(item.crop_width, item.resized_width));
  }
  FORELOAD_CHECK(cuda_.check(cuda_.stream_waits(stream_, job.copied, 0), "waiting for a copy"));
  void* arguments[] = {&items_at};
  const auto count = static_cast<unsigned>(items.size());
  FORELOAD_CHECK(cuda_.check(
      cuda_.launch(columns_, (rows + kRowsPerBlock - 1) / kRowsPerBlock, count, 1, kThreads, 1, 1,
                   std::min(taps, kMostTaps) * kThreads * 4, stream_, arguments, nullptr),
      "resizing"));
  return cuda_.check(
      cuda_.launch(rows_, height, count, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr),
      "resizing");
}

}  // namespace foreload::gpu
