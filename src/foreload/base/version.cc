// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/version.h"

namespace foreload {

const char* version() {
  return FORELOAD_VERSION;
}

}  // namespace foreload
