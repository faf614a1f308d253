// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/start_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::filesystem::path& path) {
  return path.empty() ? Json(nullptr) : Json(path.native());
}

}  // namespace

std::string to_json(const LoaderStart& start) {
  Json json{{"profile", or_null(start.profile)},
            {"source_first_concurrency", start.source_first},
            {"index_file", or_null(start.listing.file)},
            {"listing",
             {{"from", name_of(start.listing.from)},
              {"age_seconds", start.listing.age},
              {"file", or_null(start.listing.file)},
              {"changed_folder", or_null(start.listing.changed)},
              {"text", start.listing.text()}}},
            {"transport", or_null(start.transport)},
            {"transport_why", or_null(start.transport_why)},
            {"tiers", Json::array()},
            {"warnings", start.warnings}};
  for (const TierStart& tier : start.tiers) {
    json["tiers"].push_back(
        {{"name", tier.folder.empty() ? "memory" : "disk"},
         {"folder", or_null(tier.folder)},
         {"bytes", tier.bytes},
         {"budget_from", or_null(tier.why)},
         {"bytes_per_second", tier.rate > 0 ? Json(tier.rate) : Json(nullptr)},
         {"speed_from",
          tier.speed_from == SpeedFrom::nobody ? Json(nullptr) : Json(name_of(tier.speed_from))},
         {"first_concurrency", tier.first},
         {"in_use_by", Json::array()}});
    for (const DiskNeighbour& other : tier.others)
      json["tiers"].back()["in_use_by"].push_back(
          {{"host", or_null(other.host)},
           {"process", other.process > 0 ? Json(other.process) : Json(nullptr)},
           {"bytes", other.bytes()}});
  }
  // Paths need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string tiers_text(const LoaderStart& start) {
  std::string text;
  for (const TierStart& tier : start.tiers) {
    if (tier.bytes == 0) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", format_bytes(tier.bytes),
                        tier.folder.empty() ? "memory" : tier.folder.native(),
                        tier.why.empty() ? "" : fmt::format(" ({})", tier.why));
  }
  return text;
}

}  // namespace foreload
