// SPDX-License-Identifier: Apache-2.0
//
// Prints the library's version, then its first argument, a size such as 2GiB, in bytes.
#include <iostream>

#include "foreload/base/bytes.h"
#include "foreload/base/version.h"

int main(int argc, char** argv) {
  const auto bytes = foreload::parse_bytes(argc > 1 ? argv[1] : "");
  if (!bytes) {
    std::cerr << bytes.error().message << '\n';
    return 1;
  }
  std::cout << foreload::version() << '\n' << *bytes << '\n';
  return 0;
}
