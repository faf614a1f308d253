// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/joining.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreload {
namespace {

using Json = nlohmann::json;

// What disks hold, in pieces that a rendezvous takes: sample numbers as differences, seven bits a
// byte, each followed by its tier.
constexpr size_t kPieceBytes = kMostValueBytes - 64;

void put_number(uint64_t value, std::string& text) {
  for (; value >= 128; value >>= 7) text += static_cast<char>(128 | (value & 127));
  text += static_cast<char>(value);
}

std::vector<std::string> pieces_of(const std::vector<Held>& held) {
  std::vector<std::string> pieces(1);
  uint64_t before = 0;
  for (const Held& copy : held) {
    if (pieces.back().size() + 11 > kPieceBytes) pieces.emplace_back();
    put_number(copy.sample - before, pieces.back());
    pieces.back() += static_cast<char>(copy.tier);
    before = copy.sample;
  }
  return pieces;
}

// False if the text is not what pieces_of() writes.
bool read_piece(const std::string& text, uint32_t rank, size_t tiers, uint64_t& before,
                std::vector<Held>& held) {
  for (size_t i = 0; i < text.size();) {
    uint64_t difference = 0;
    unsigned shift = 0;
    do {
      if (i + 1 >= text.size() || shift > 56) return false;
      difference |= uint64_t{static_cast<uint8_t>(text[i]) & 127u} << shift;
      shift += 7;
    } while (static_cast<uint8_t>(text[i++]) >= 128);
    const auto tier = static_cast<uint8_t>(text[i++]);
    if (tier >= tiers) return false;
    before += difference;
    held.push_back({before, rank, tier});
  }
  return true;
}

bool are_numbers(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_array() &&
         std::all_of(json[key].begin(), json[key].end(),
                     [](const Json& value) { return value.is_number_unsigned(); });
}

tl::unexpected<Error> nonsense(uint32_t rank) {
  return fail(ErrorKind::corrupt,
              fmt::format("what rank {} told about itself makes no sense: start all ranks with the "
                          "same version of foreload",
                          rank));
}

}  // namespace

Result<std::vector<RankFacts>> exchange_facts(const JoinSettings& join, uint32_t rank,
                                              uint32_t ranks, const RankFacts& own) {
  const std::vector<std::string> own_pieces = pieces_of(own.held);
  for (size_t i = 0; i < own_pieces.size(); ++i)
    FORELOAD_CHECK(join.rendezvous->put(fmt::format("held/{}/{}", rank, i), own_pieces[i]));
  const Json told{{"fingerprint", {own.fingerprint.high, own.fingerprint.low}},
                  {"tiers", own.tiers},
                  {"pieces", own_pieces.size()}};
  FORELOAD_TRY(const auto texts,
               exchange(*join.rendezvous, "facts", rank, ranks, told.dump(), join.timeout));
  std::vector<RankFacts> facts(ranks);
  for (uint32_t other = 0; other < ranks; ++other) {
    const Json json = Json::parse(texts[other], nullptr, false);
    if (!json.is_object() || !are_numbers(json, "fingerprint") || json["fingerprint"].size() != 2 ||
        !are_numbers(json, "tiers") || !json.contains("pieces") ||
        !json["pieces"].is_number_unsigned())
      return nonsense(other);
    facts[other].fingerprint = {json["fingerprint"][0].get<uint64_t>(),
                                json["fingerprint"][1].get<uint64_t>()};
    facts[other].tiers = json["tiers"].get<std::vector<uint64_t>>();
    if (facts[other].fingerprint != own.fingerprint)
      return fail(ErrorKind::invalid,
                  fmt::format("rank {} sees another data set than rank {}: give all ranks the same "
                              "one, and list it again (revalidate) if it has changed",
                              other, rank));
    uint64_t before = 0;
    for (size_t i = 0; i < json["pieces"].get<size_t>(); ++i) {
      FORELOAD_TRY(const std::string piece,
                   join.rendezvous->get(fmt::format("held/{}/{}", other, i), join.timeout));
      if (!read_piece(piece, other, facts[other].tiers.size(), before, facts[other].held))
        return nonsense(other);
    }
  }
  return facts;
}

Result<void> agree_on_plan(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                           const Digest& plan) {
  FORELOAD_TRY(const auto digests,
               exchange(*join.rendezvous, "plan", rank, ranks, plan.hex(), join.timeout));
  const auto differs = std::find_if(digests.begin(), digests.end(),
                                    [&](const std::string& text) { return text != plan.hex(); });
  if (differs == digests.end()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("rank {} has come to another plan than rank {}: give all ranks the same "
                          "seed, order, epochs and batch size",
                          differs - digests.begin(), rank));
}

}  // namespace foreload
