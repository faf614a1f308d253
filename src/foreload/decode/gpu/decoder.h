// SPDX-License-Identifier: Apache-2.0
//
// Unpacks the parcels of batches (parcel.h) on a GPU: nvJPEG decodes the files, in the GPU's JPEG
// hardware where it has some, and kernels crop, resize and flip them into their places of the batch
// in device memory. A thread of its own gives the work to the GPU, on a stream of its own, so that
// the training loop neither waits for it nor shares its stream.
//
// open(), submit() and hand_over() are for one thread, except that open() may run anywhere.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/gpu/cuda_driver.h"
#include "foreload/decode/gpu/kernels.h"
#include "foreload/decode/gpu/libraries.h"
#include "foreload/decode/gpu/memory_pool.h"
#include "foreload/decode/parcel.h"
#include "foreload/decode/transform.h"

namespace foreload::gpu {

struct DecoderSettings {
  int device = 0;
  std::string nvjpeg = "libnvjpeg.so";  // file or name, as the next one
  std::string nvrtc = "libnvrtc.so";
};

// A batch with parcels in it.
struct PackedBatch {
  std::span<const std::byte> host;  // all places, one after another
  DeviceAddress device = 0;         // the same places in device memory
  OutputForm form;                  // of each sample
};

struct DecoderTotals {
  uint64_t images = 0;
  double seconds = 0;         // that the thread was busy
  uint64_t device_bytes = 0;  // taken for decoding
};

class Decoder {
 public:
  // One batch on its way.
  class Job;

  // Fails with `unreadable` where there is no GPU or no nvJPEG, and says what to install.
  static Result<std::unique_ptr<Decoder>> open(const DecoderSettings& settings,
                                               std::shared_ptr<const PackingRule> rule);
  // Finishes what was submitted.
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Starts on a batch. Pixels are written after what `copies` (a stream) holds now, which is the
  // copy of the host's places. REQUIRES: host and device memory live until finish() or until what
  // hand_over() made wait has run.
  Result<std::shared_ptr<Job>> submit(const PackedBatch& batch, void* copies);
  // Waits until the GPU has been given all the work, and makes `stream` wait for its end. Fails
  // with `invalid` if nvJPEG refuses a file: the CPU must unpack this batch then.
  Result<void> hand_over(Job& job, void* stream);
  // Waits until the batch is done or has failed.
  void finish(Job& job);

  bool in_hardware() const { return in_hardware_; }
  DecoderTotals totals() const;

 private:
  Decoder() = default;

  Result<void> start(const DecoderSettings& settings);
  void close();
  void work();
  Result<void> run(Job& job);
  Result<void> make_room(uint64_t bytes);
  Result<void> decode_files(const std::vector<Parcel>& parcels,
                            const std::vector<DeviceAddress>& images);
  int create_nvjpeg(int backend);
  Result<void> resize(const Job& job, const std::vector<ResizeItem>& items, DeviceAddress items_at);

  CudaDriver cuda_;
  NvJpeg nvjpeg_;
  std::shared_ptr<const PackingRule> rule_;
  bool in_hardware_ = false;
  int device_ = -1;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  void* module_ = nullptr;
  void* columns_ = nullptr;
  void* rows_ = nullptr;
  std::unique_ptr<MemoryPool> device_memory_;  // of nvJPEG, as the next three
  std::unique_ptr<MemoryPool> pinned_memory_;
  void* handle_ = nullptr;
  void* state_ = nullptr;
  size_t begun_for_ = 0;    // images in a call, as nvJPEG knows it: the most there were so far
  DeviceAddress room_ = 0;  // images, then the space between passes, then items
  uint64_t room_bytes_ = 0;

  mutable std::mutex mutex_;  // guards the next three and the jobs' state
  std::deque<std::shared_ptr<Job>> jobs_;
  bool stop_ = false;
  DecoderTotals totals_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace foreload::gpu
