// SPDX-License-Identifier: Apache-2.0
#include "lists.h"

#include <algorithm>
#include <span>

#include "calls.h"

namespace foreload::python {

py::array_t<int64_t> list_array(const EpochOrder& epoch, const Sharding& sharding,
                                std::optional<uint32_t> rank, std::optional<uint64_t> limit) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;  // entries between two looks at signals

  const uint64_t length = rank ? sharding.per_rank() : sharding.total();
  const uint64_t wanted = std::min(length, limit.value_or(length));
  py::array_t<int64_t> array(static_cast<py::ssize_t>(wanted));
  // Sample ids are below 2^63, so that both readings of a word are the same number.
  const std::span<uint64_t> out(reinterpret_cast<uint64_t*>(array.mutable_data()), wanted);
  compute([&](SignalWatch& watch) -> Result<void> {
    for (uint64_t first = 0; first < wanted && watch.proceed(); first += kPiece) {
      const auto piece = out.subspan(first, std::min(kPiece, wanted - first));
      if (rank) {
        read_list(epoch, sharding, *rank, first, piece);
      } else {
        read_global_list(epoch, sharding, first, piece);
      }
    }
    return {};
  });
  return array;
}

}  // namespace foreload::python
