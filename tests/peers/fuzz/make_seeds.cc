// SPDX-License-Identifier: Apache-2.0
//
// Writes the seed corpus of wire_fuzz.cc, one file a kind of message, into the folder given.
#include <filesystem>
#include <fstream>

#include "foreload/peers/wire.h"

int main(int argc, char** argv) {
  using namespace foreload;
  if (argc != 2) return 2;
  const std::vector<WireMessage> messages{
      wire::Request{1, 2},    wire::Reply{1, wire::ReplyStatus::here, 2, 3},
      wire::Push{1, 2, 3, 4}, wire::PushAnswer{1, wire::PushStatus::refused},
      wire::Cancel{1},        wire::Goodbye{},
      wire::Ping{1},          wire::Pong{1}};
  for (const WireMessage& message : messages) {
    const std::vector<std::byte> bytes = encode(message);
    std::ofstream file(std::filesystem::path(argv[1]) / ("kind-" + std::to_string(message.index())),
                       std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    if (!file) return 1;
  }
  return 0;
}
