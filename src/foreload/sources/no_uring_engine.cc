// SPDX-License-Identifier: Apache-2.0
// Stands in for uring_engine.cc where liburing was not found.
#include <fmt/format.h>

#include "foreload/sources/uring_engine.h"

namespace foreload {

Result<std::unique_ptr<Source>> start_uring_engine(std::shared_ptr<const FolderFiles> files,
                                                   const Source::Answered&) {
  return fail(ErrorKind::invalid,
              fmt::format("cannot read from folder {} with io_uring: this build has no liburing; "
                          "use the engine 'threads', or build with liburing",
                          files->root_name));
}

}  // namespace foreload
