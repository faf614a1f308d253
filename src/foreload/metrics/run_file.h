// SPDX-License-Identifier: Apache-2.0
//
// The file that a record of a run lies in: JSON lines, the first says what ran (format version,
// settings, plan digest), then objects as docs/formats.md lists them. Whole lines are appended, so
// that the file can be read at any time, and epochs are synced, so that a crash loses at most the
// epoch it happened in. For one thread; run_record.h makes the lines.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "foreload/base/descriptor.h"
#include "foreload/base/result.h"

namespace foreload {

inline constexpr int kRunFileVersion = 2;

class RunFile {
 public:
  // Creates or replaces the file. `header` is a JSON object; it becomes the first line, with the
  // format version as "foreload_run" in front. Fails with `unreadable`, and with `invalid` if the
  // header is no JSON object.
  static Result<RunFile> create(const std::filesystem::path& file, std::string_view header);
  // Appends one JSON object as a line, and syncs unless told otherwise. Fails like create(), and
  // then leaves the file as it was; the run should go on.
  Result<void> append(std::string_view object, bool sync = true);

 private:
  RunFile(Descriptor descriptor, std::filesystem::path file)
      : descriptor_(std::move(descriptor)), file_(std::move(file)) {}
  Result<void> write_line(std::string line, bool sync);

  Descriptor descriptor_;
  std::filesystem::path file_;
};

}  // namespace foreload
