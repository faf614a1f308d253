// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/joining.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/version.h"
#include "foreload/loader/held_text.h"
#include "foreload/peers/wire.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

bool are_numbers(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_array() &&
         std::all_of(json[key].begin(), json[key].end(),
                     [](const Json& value) { return value.is_number_unsigned(); });
}

tl::unexpected<Error> nonsense(uint32_t rank) {
  return fail(ErrorKind::corrupt,
              fmt::format("what rank {} said about itself is malformed: start all ranks with the "
                          "same version of foreload",
                          rank));
}

Result<void> check_version(const Json& json, uint32_t other, uint32_t rank) {
  if (!json.is_object() || !json.contains("foreload") || !json["foreload"].is_string() ||
      !json.contains("wire") || !json["wire"].is_number_unsigned())
    return nonsense(other);
  const auto theirs = json["foreload"].get<std::string>();
  const auto wire = json["wire"].get<uint64_t>();
  if (theirs == version() && wire == kWireVersion) return {};
  return fail(ErrorKind::invalid,
              fmt::format("rank {} runs foreload {} (messages of version {}), rank {} runs {} "
                          "({}): install the same version on all nodes",
                          other, theirs, wire, rank, version(), kWireVersion));
}

// Ranks that cannot reach each other are better told now than after the first time-out.
Result<void> check_way(const JoinSettings& join, const Json& json, uint32_t other, uint32_t rank) {
  if (!json.contains("transport") || !json["transport"].is_string() || !json.contains("host") ||
      !json["host"].is_string())
    return nonsense(other);
  const auto transport = json["transport"].get<std::string>();
  if (transport != join.transport)
    return fail(ErrorKind::invalid,
                fmt::format("rank {} talks over {}, rank {} over {}: give all ranks the same "
                            "transport",
                            other, transport, rank, join.transport));
  if (join.interface == "lo" && json["host"].get<std::string>() != join.host)
    return fail(ErrorKind::invalid,
                fmt::format("rank {} is on host {}, and rank {} on {} would listen on its loopback "
                            "interface only: set FORELOAD_INTERFACE to the one that both reach",
                            other, json["host"].get<std::string>(), rank, join.host));
  return {};
}

Result<std::vector<RankFacts>> collect_facts(const JoinSettings& join, uint32_t rank,
                                             uint32_t ranks, uint64_t samples,
                                             const RankFacts& own) {
  // The version comes first and stays where it is: ranks of different versions must be able to find
  // out that they are.
  const Json told{{"foreload", version()},
                  {"wire", kWireVersion},
                  {"fingerprint", {own.fingerprint.high, own.fingerprint.low}},
                  {"form", own.form},
                  {"tiers", own.tiers},
                  {"host", join.host},
                  {"transport", join.transport}};
  FORELOAD_TRY(const auto texts,
               exchange(*join.rendezvous, "facts", rank, ranks,
                        told.dump() + '\n' + held_text(own.held, own.tiers.size()), join.timeout));
  std::vector<RankFacts> facts(ranks);
  for (uint32_t other = 0; other < ranks; ++other) {
    const std::string_view text = texts[other];
    const size_t end = std::min(text.find('\n'), text.size());
    const Json json = Json::parse(text.substr(0, end), nullptr, false);
    FORELOAD_CHECK(check_version(json, other, rank));
    if (!are_numbers(json, "fingerprint") || json["fingerprint"].size() != 2 ||
        !are_numbers(json, "tiers") || !json.contains("form") || !json["form"].is_number_unsigned())
      return nonsense(other);
    facts[other].fingerprint = {json["fingerprint"][0].get<uint64_t>(),
                                json["fingerprint"][1].get<uint64_t>()};
    facts[other].tiers = json["tiers"].get<std::vector<uint64_t>>();
    if (facts[other].fingerprint != own.fingerprint)
      return fail(ErrorKind::invalid,
                  fmt::format("rank {} sees another data set than rank {}: give all ranks the same "
                              "one, and list it again (revalidate) if it has changed",
                              other, rank));
    facts[other].form = json["form"].get<FormId>();
    if (facts[other].form != own.form)
      return fail(ErrorKind::invalid,
                  fmt::format("rank {} keeps samples in another form than rank {}: give all ranks "
                              "the same form and transform, and the same versions of what decodes",
                              other, rank));
    FORELOAD_CHECK(check_way(join, json, other, rank));
    if (!read_held_text(text.substr(std::min(end + 1, text.size())), other,
                        facts[other].tiers.size(), samples, facts[other].held))
      return nonsense(other);
  }
  return facts;
}

Result<void> compare_plans(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                           const Digest& plan) {
  FORELOAD_TRY(const auto digests,
               exchange(*join.rendezvous, "plan", rank, ranks, plan.hex(), join.timeout));
  const auto differs = std::find_if(digests.begin(), digests.end(),
                                    [&](const std::string& text) { return text != plan.hex(); });
  if (differs == digests.end()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("rank {} computed another plan than rank {}: give all ranks the same "
                          "seed, order, epochs and batch size",
                          differs - digests.begin(), rank));
}

// Rank 0 may serve the rendezvous: when joining fails, it stays until the others have seen why.
template <class T>
Result<T> fail_together(const JoinSettings& join, uint32_t rank, uint32_t ranks, Result<T> result) {
  constexpr std::chrono::seconds kGrace{2};
  if (!result) (void)check_in(*join.rendezvous, "end of joining", rank, ranks, kGrace);
  return result;
}

}  // namespace

Result<std::vector<RankFacts>> exchange_facts(const JoinSettings& join, uint32_t rank,
                                              uint32_t ranks, uint64_t samples,
                                              const RankFacts& own) {
  return fail_together(join, rank, ranks, collect_facts(join, rank, ranks, samples, own));
}

Result<void> agree_on_plan(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                           const Digest& plan) {
  return fail_together(join, rank, ranks, compare_plans(join, rank, ranks, plan));
}

Result<std::unique_ptr<Transport>> connect_ranks(const JoinSettings& join, uint32_t rank,
                                                 uint32_t ranks, TransportCalls calls) {
  FORELOAD_TRY(auto transport, fail_together(join, rank, ranks, join.connect(std::move(calls))));
  FORELOAD_CHECK(check_in(*join.rendezvous, "end of joining", rank, ranks, join.timeout));
  return transport;
}

}  // namespace foreload
