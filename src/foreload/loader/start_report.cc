// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/start_report.h"

#include <nlohmann/json.hpp>

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
            {"index_file", or_null(start.index_file)},
            {"transport", or_null(start.transport)},
            {"transport_why", or_null(start.transport_why)},
            {"tiers", Json::array()},
            {"warnings", start.warnings}};
  for (const TierStart& tier : start.tiers) {
    json["tiers"].push_back(
        {{"name", tier.folder.empty() ? "memory" : "disk"},
         {"folder", or_null(tier.folder)},
         {"bytes", tier.bytes},
         {"bytes_per_second", tier.rate > 0 ? Json(tier.rate) : Json(nullptr)},
         {"speed_from",
          tier.speed_from == SpeedFrom::nobody ? Json(nullptr) : Json(name_of(tier.speed_from))},
         {"first_concurrency", tier.first}});
  }
  // Paths need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace foreload
