// SPDX-License-Identifier: Apache-2.0
//
// A data set of photo-like JPEG files in class folders, to try a loader on: as many files as
// wanted, of about the size wanted, the same bytes for the same settings and library on every
// machine. Photos of one class have one subject (photo.h).
//
// Files vary as those of a collection do: areas by a factor of two and more, shapes from tall to
// wide. The quality follows from the sizes in bytes and pixels; photos of ImageNet have about four
// bits a pixel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/decode/pixels.h"

namespace foreload {

struct PhotoSetSettings {
  uint64_t count = 1000;
  uint64_t classes = 10;
  uint64_t mean_bytes = 110 << 10;  // of a file
  ImageSize mean_size;              // in pixels; {0, 0}: what mean_bytes gives at four bits a pixel
  uint64_t seed = 0;
  unsigned threads = 0;  // 0: the CPUs this process may use
  Progress progress;     // in files
};

struct PhotoSetFigures {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t smallest = 0;  // bytes of a file
  uint64_t largest = 0;
  ImageSize mean_size;
  int quality = 0;  // of the JPEG files, 1 to 100
};

// The path of a photo below the data set's folder. Sorted paths are in the order of numbers.
std::string photo_path(uint64_t number, const PhotoSetSettings& settings);

// Makes the folder, which may be there if it is empty. Whatever was written is removed again on
// failure. Fails with `invalid` for settings that make no sense and for a folder with something in
// it, with `unreadable` if a file cannot be written or the disk has no room, with `cancelled`.
Result<PhotoSetFigures> write_photo_set(const std::filesystem::path& folder,
                                        const PhotoSetSettings& settings);

}  // namespace foreload
