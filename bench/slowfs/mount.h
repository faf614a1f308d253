// SPDX-License-Identifier: Apache-2.0
//
// The file system itself: a source folder, read-only, at a mount point, with every request shaped
// and counted, and a control file that answers with the counters and takes commands.
#pragma once

#include <string>

#include "foreload/base/result.h"

#include "shape.h"

namespace foreload::slowfs {

// In the root of the mount; not listed, not shaped and not counted. Reading gives Shape::json(),
// writing goes to Shape::command().
inline constexpr char kControlFile[] = ".slowfs-stats";

// Serves until the process gets SIGINT, SIGTERM or SIGHUP or the mount point is unmounted, and
// leaves it unmounted.
Result<void> serve(const std::string& source, const std::string& mount_point, Shape& shape);

}  // namespace foreload::slowfs
