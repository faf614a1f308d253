// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/announcement.h"

#include <cstring>

#include <fmt/format.h>

namespace foreload::ucx {

// Nonce, address, HMAC over rank and both.
std::string announcement(const JobSecret& secret, const Announced& own) {
  std::string text(reinterpret_cast<const char*>(own.nonce.data()), own.nonce.size());
  text += own.address;
  const std::string signed_text = fmt::format("foreload ucx address of rank {}:", own.rank) + text;
  const auto tag = authenticate(secret, std::as_bytes(std::span(signed_text)));
  return text.append(reinterpret_cast<const char*>(tag.data()), tag.size());
}

Result<Announced> read_announcement(const JobSecret& secret, uint32_t rank,
                                    const std::string& text) {
  constexpr size_t kTagBytes = 32;
  Announced other;
  other.rank = rank;
  if (text.size() > sizeof(RunNonce) + kTagBytes) {
    std::memcpy(other.nonce.data(), text.data(), sizeof(RunNonce));
    other.address = text.substr(sizeof(RunNonce), text.size() - sizeof(RunNonce) - kTagBytes);
    // Nobody learns anything from how long this takes: there is one try a start.
    if (announcement(secret, other) == text) return other;
  }
  return fail(ErrorKind::invalid,
              fmt::format("the address of rank {} in the rendezvous is not signed with this job's "
                          "secret. Give all ranks the same secret and each job a rendezvous of its "
                          "own",
                          rank));
}

}  // namespace foreload::ucx
