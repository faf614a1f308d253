// SPDX-License-Identifier: Apache-2.0
//
// The disk tier as the engine asks for it so far: by sample and version of one data set. A sample's
// key has both of them, and the data set in the form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/result.h"
#include "foreload/tiers/disk.h"

namespace foreload {

struct SampleDiskSettings : DiskSettings {
  Digest fingerprint;  // of the data set
  uint64_t form = 0;
};

// A sample that is on the disk already, as of opening.
struct DiskEntry {
  uint64_t sample = 0;
  uint64_t version = 0;
  uint64_t size = 0;
};

enum class DiskAnswer : uint8_t { done, miss, corrupt, failed, full };

struct DiskRead {
  uint64_t id = 0;
  uint64_t sample = 0;
  std::byte* into = nullptr;           // `size` bytes
  uint64_t size = 0;                   // must be the sample's
  std::shared_ptr<const void> keeper;  // keeps `into` and `checksum`
  bool for_peer = false;
  uint64_t* checksum = nullptr;  // takes that of the bytes, if they are wanted with it
};

struct DiskWrite {
  uint64_t id = 0;
  uint64_t sample = 0;
  uint64_t version = 0;
  const std::byte* from = nullptr;
  uint64_t size = 0;
  uint64_t checksum = 0;               // XXH3 of the bytes
  std::shared_ptr<const void> keeper;  // keeps `from` until the answer
};

class DiskTier {
 public:
  using Answered = std::function<void(uint64_t id, DiskAnswer answer)>;

  // As open_disk().
  static Result<std::unique_ptr<DiskTier>> open(SampleDiskSettings settings, Answered answered,
                                                DiskSharing* sharing = nullptr);
  virtual ~DiskTier() = default;

  virtual const std::vector<DiskEntry>& found() const = 0;  // in ascending order of samples
  virtual void keep(const std::function<bool(uint64_t sample, uint64_t version)>& wanted) = 0;
  virtual void read(DiskRead read) = 0;
  virtual void write(DiskWrite write) = 0;
  virtual void drop(uint64_t sample) = 0;
  virtual bool holds(uint64_t sample) const = 0;
  virtual uint64_t payload() const = 0;                 // bytes of samples held
  virtual std::optional<std::string> dead() const = 0;  // why the tier is off, if it is
};

}  // namespace foreload
