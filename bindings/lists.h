// SPDX-License-Identifier: Apache-2.0
//
// Reading lists as numpy arrays.
#pragma once

#include <cstdint>
#include <optional>

#include <pybind11/numpy.h>

#include "foreload/plan/order.h"
#include "foreload/plan/sharding.h"

namespace foreload::python {

// The samples that `rank` reads, or all ranks together if there is no `rank`; the first `limit` of
// them. REQUIRES: the GIL is held; sharding.samples == epoch.size(); rank < sharding.ranks.
pybind11::array_t<int64_t> list_array(const EpochOrder& epoch, const Sharding& sharding,
                                      std::optional<uint32_t> rank,
                                      std::optional<uint64_t> limit = std::nullopt);

}  // namespace foreload::python
