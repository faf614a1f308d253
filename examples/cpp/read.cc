// SPDX-License-Identifier: Apache-2.0
//
// Reads a folder for a few epochs through foreload's C++ API and prints the digest of what was
// delivered, the same that `foreload read` prints:
//
//     read FOLDER [EPOCHS [MEMORY]]          for example: read /data/train 3 200MiB
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "foreload/base/bytes.h"
#include "foreload/base/hash.h"
#include "foreload/formats/listing.h"
#include "foreload/loader/loader.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: read FOLDER [EPOCHS [MEMORY]]\n");
    return 2;
  }
  foreload::LoaderSettings settings;
  settings.dataset = argv[1];
  settings.extensions = foreload::image_extensions();
  settings.epochs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  if (argc > 3) settings.memory = foreload::parse_bytes(argv[3]).value_or(0);

  const auto loader = foreload::Loader::open(settings);
  if (!loader) {
    std::fprintf(stderr, "read: %s\n", loader.error().message.c_str());
    return 2;
  }
  for (uint64_t epoch = 0; epoch < *settings.epochs; ++epoch) {
    foreload::Checksum64 digest;
    while (true) {
      const auto batch = (*loader)->next();
      if (!batch) {
        std::fprintf(stderr, "read: %s\n", batch.error().message.c_str());
        return 1;
      }
      if (!*batch) break;  // the end of the epoch
      for (size_t i = 0; i < (*batch)->samples.size(); ++i) {
        std::byte number[8];
        for (size_t byte = 0; byte < 8; ++byte)
          number[byte] = static_cast<std::byte>((*batch)->samples[i] >> (8 * byte));
        digest.add(number);
        digest.add((*batch)->bytes[i]);
      }
    }
    std::printf("epoch %" PRIu64 ": %" PRIu64 " samples, digest %016" PRIx64 "\n", epoch,
                (*loader)->epoch_stats().samples, digest.value());
  }
  return 0;
}
