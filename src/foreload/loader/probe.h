// SPDX-License-Identifier: Apache-2.0
//
// Measures the devices of a machine in seconds: how fast memory is copied by so many threads, how
// fast a disk or a data set's source is with so many requests in flight, and how long one request
// takes. `foreload probe` saves what comes out as a machine profile; a run starts from it.
//
// Each call uses threads of its own and is for one thread. What they write lies in a file without a
// name, so nothing is left behind however they end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/formats/listing.h"
#include "foreload/model/profile.h"

namespace foreload {

struct ProbeSettings {
  std::chrono::duration<double> time{3};  // for one device, listing not counted
  uint64_t seed = 0;                      // of the order in which samples and blocks are read
  std::vector<std::string> extensions = image_extensions();  // of samples
  std::filesystem::path index;  // saved index of the source, instead of listing it; may be empty
  Progress progress;            // steps done, steps in all
};

// Each fails with `cancelled` if progress says so.
//
// Copying of blocks of 100 KiB by 1, 2 and 4 threads, and filling of memory that was not used
// before, the process's own and such as ranks of a host share.
Result<DeviceProfile> probe_memory(const ProbeSettings& settings);
// Reading blocks of 100 KiB in random order past the page cache where that is possible, with 1 to
// 32 in flight, of a file that is written first, which gives the write rate. Fails with
// `unreadable` if the folder cannot be written to or is full.
Result<DeviceProfile> probe_disk(const std::filesystem::path& folder,
                                 const ProbeSettings& settings);
// Reading samples of a data set (a folder or a file list) through the source that a run reads with,
// in random order and each once as far as they last, with 1 to 32 in flight. Fails as
// open_saved_index() does, and with `unreadable` if a sample cannot be read. What it takes in CPU
// time is what the whole process used meanwhile, so nothing else should be done in it.
Result<DeviceProfile> probe_source(const std::filesystem::path& dataset,
                                   const ProbeSettings& settings);

// What a path is: a file, or a folder in which samples are soon found, is a source; any other
// folder is a disk.
DeviceKind kind_of_path(const std::filesystem::path& path,
                        const std::vector<std::string>& extensions);

// A first guess in some tens of milliseconds: bytes per second with a few small reads in flight, 0
// if the folder cannot be written to. Makes the folder if it is not there.
double quick_disk_rate(const std::filesystem::path& folder);

}  // namespace foreload
