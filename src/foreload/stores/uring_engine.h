// SPDX-License-Identifier: Apache-2.0
//
// The folder source by io_uring: one thread of its own moves all reads from step to step and never
// waits for one of them. Steps that the system may carry out while submitting, and that can hang
// there on a shared file system (open and close; all of them where it is not local), are asked to
// run on the ring's worker threads. Private to stores.
#pragma once

#include <memory>

#include "foreload/base/result.h"
#include "foreload/stores/folder_files.h"
#include "foreload/stores/source.h"

namespace foreload {

// Fails with `invalid`, naming the cause, where the system has no usable io_uring.
Result<std::unique_ptr<Source>> start_uring_engine(std::shared_ptr<const FolderFiles> files,
                                                   const Source::Answered& answered);

}  // namespace foreload
