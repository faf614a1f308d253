// SPDX-License-Identifier: Apache-2.0
//
// The folder source by threads that block: for systems without io_uring. The number of threads
// grows with the reads that wait. A thread that the system does not give back in time is abandoned
// and replaced; it keeps what it needs alive and ends when the system lets go of it, which may be
// after the source is gone. Private to stores.
#pragma once

#include <memory>

#include "foreload/base/result.h"
#include "foreload/stores/folder_files.h"
#include "foreload/stores/source.h"

namespace foreload {

// Fails with `unreadable` if not even one thread can be had.
Result<std::unique_ptr<Source>> start_thread_engine(std::shared_ptr<const FolderFiles> files,
                                                    Source::Answered answered);

}  // namespace foreload
