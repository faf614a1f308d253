// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/sharding.h"

#include <fmt/format.h>

#include "foreload/base/text.h"

namespace foreload {

Result<Pad> parse_pad(std::string_view name) {
  if (name == "repeat") return Pad::repeat;
  if (name == "truncate") return Pad::truncate;
  return fail(ErrorKind::invalid, fmt::format("unknown pad '{}': use repeat or truncate{}", name,
                                              did_you_mean(name, {"repeat", "truncate"})));
}

}  // namespace foreload
