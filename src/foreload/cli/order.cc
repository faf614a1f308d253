// SPDX-License-Identifier: Apache-2.0
//
// foreload order: the reading list of a rank, one sample a line.
#include "foreload/plan/order.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/cli/arguments.h"
#include "foreload/cli/setting_options.h"
#include "foreload/cli/verbs.h"

namespace foreload::cli {
namespace {

struct OrderOptions {
  std::string samples;
  std::string rank = "0";
  std::string epoch = "0";
  std::string start = "0";
  std::string limit;
  bool json = false;
};

Result<int> run_order(const OrderOptions& options, const SettingOptions& given) {
  FORELOAD_TRY(const uint64_t samples, parse_count("--samples", options.samples, 1));
  FORELOAD_TRY(const LoaderSettings settings, given.parse());
  const uint32_t ranks = settings.ranks;
  FORELOAD_TRY(const uint64_t rank, parse_count("--rank", options.rank));
  FORELOAD_TRY(const uint64_t epoch_number, parse_count("--epoch", options.epoch));
  FORELOAD_TRY(const uint64_t start, parse_count("--start", options.start, 0, samples));
  if (rank >= ranks)
    return fail(
        ErrorKind::invalid,
        fmt::format("--rank {} is outside the job's {} ranks, numbered from 0", rank, ranks));
  const Sharding sharding{samples, ranks, settings.pad, start};
  uint64_t left = sharding.per_rank();
  if (!options.limit.empty()) {
    FORELOAD_TRY(const uint64_t limit, parse_count("--limit", options.limit));
    left = std::min(left, limit);
  }
  FORELOAD_TRY(const auto order, make_order(settings.order, samples, settings.seed));
  FORELOAD_TRY(const auto epoch, order->epoch(epoch_number));

  std::vector<uint64_t> block(4096);
  fmt::memory_buffer text;
  if (options.json) text.push_back('[');
  for (uint64_t first = 0; first < left; first += block.size()) {
    const auto ids = std::span(block).first(std::min<uint64_t>(block.size(), left - first));
    read_list(*epoch, sharding, static_cast<uint32_t>(rank), first, ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (options.json)
        fmt::format_to(std::back_inserter(text), "{}{}", first + i == 0 ? "" : ", ", ids[i]);
      else
        fmt::format_to(std::back_inserter(text), "{}\n", ids[i]);
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    text.clear();
  }
  if (options.json) fmt::print("{}]\n", std::string_view(text.data(), text.size()));
  return 0;
}

}  // namespace

Run add_order(CLI::App& app) {
  auto options = std::make_shared<OrderOptions>();
  CLI::App* verb = app.add_subcommand("order", "Print the samples a rank reads, in order");
  verb->add_option("--samples", options->samples, "samples in the data set")->required();
  const auto given = std::make_shared<SettingOptions>(
      *verb, std::vector<std::string_view>{"ranks", "seed", "order", "pad"});
  verb->add_option("--rank", options->rank, "whose list, numbered from 0 (0)");
  verb->add_option("--epoch", options->epoch, "which epoch, numbered from 0 (0)");
  verb->add_option("--start", options->start,
                   "samples of the epoch that all ranks together have consumed already (0)");
  verb->add_option("--limit", options->limit, "print only the first ones");
  verb->add_flag("--json", options->json, "print one JSON list");
  return [options, given] { return run_order(*options, *given); };
}

}  // namespace foreload::cli
