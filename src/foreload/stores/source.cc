// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/source.h"

namespace foreload {

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "none";
    case Fault::transient:
      return "transient";
    case Fault::throttled:
      return "throttled";
    case Fault::permanent:
      return "permanent";
    case Fault::changed:
      return "changed";
    case Fault::deadline:
      return "deadline";
    case Fault::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace foreload
