// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/plan.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "foreload/base/bytes.h"
#include "foreload/dataset/index.h"
#include "foreload/loader/settling.h"
#include "foreload/plan/summary.h"

#include "calls.h"
#include "lists.h"

namespace foreload::python {

namespace {

using Integers = py::array_t<int64_t, py::array::c_style>;

// A plan and what making it took.
struct MadePlan {
  Plan plan;
  double seconds = 0;
};

// Bytes of memory and disk, per rank or once for all.
using Budgets = std::vector<std::pair<uint64_t, uint64_t>>;

constexpr uint32_t kDisk = 1;  // number of the slowest tier

std::vector<std::vector<PlannedTier>> tiers_of(const Budgets& budgets) {
  std::vector<std::vector<PlannedTier>> tiers;
  for (const auto& [memory, disk] : budgets) {
    tiers.push_back({{"memory", memory, 2}, {"disk", disk, 1}});
  }
  return tiers;
}

// `ranks` has the rank whose disk holds each sample, or -1.
std::vector<Held> held_by(const Integers& ranks, const Sizes& sizes) {
  const auto samples = static_cast<uint64_t>(ranks.size());
  if (samples != sizes.samples()) {
    throw py::value_error(fmt::format("held has {} entries for {} samples: give one per sample",
                                      format_count(samples), format_count(sizes.samples())));
  }
  std::vector<Held> held;
  for (uint64_t sample = 0; sample < samples; ++sample) {
    const int64_t rank = ranks.data()[sample];
    if (rank >= 0) held.push_back({sample, static_cast<uint32_t>(rank), kDisk});
  }
  return held;
}

MadePlan make_plan(const LoaderSettings& settings, const Sizes& sizes, const std::string& placement,
                   const Budgets& budgets, const std::optional<Integers>& held, unsigned threads) {
  Job job = job_of(settings);
  job.placement = take(parse_placement_kind(placement));
  job.tiers = tiers_of(budgets);
  if (held) job.held = held_by(*held, sizes);

  return compute([&](SignalWatch& watch) -> Result<MadePlan> {
    const auto begin = std::chrono::steady_clock::now();
    PlanOptions options;
    options.threads = threads;
    options.progress = watch.progress();
    FORELOAD_TRY(Plan plan, Plan::make(job, sizes, options));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return MadePlan{std::move(plan), taken.count()};
  });
}

// A read-only array over memory that `owner` keeps alive.
template <class T>
py::array_t<T> view(std::span<const T> values, py::handle owner) {
  py::array_t<T> array(static_cast<py::ssize_t>(values.size()), values.data(), owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

// The table of owners that a computed placement does not have.
void need_owner_table(const Placement& placement) {
  if (placement.kind() == PlacementKind::computed) {
    throw py::value_error(
        "a computed placement has no table of owners: use owner_of(sample) or owned_by(rank)");
  }
}

py::array_t<int64_t> list_of(const MadePlan& made, std::optional<uint32_t> rank, int64_t epoch) {
  const Plan& plan = made.plan;
  const uint64_t first = plan.job().first_epoch;
  const uint64_t end = plan.job().epochs ? first + *plan.job().epochs : uint64_t{1} << 63;
  const uint64_t number = within("epoch", epoch, first, end);
  const auto ids = compute([&](SignalWatch&) { return plan.order().epoch(number); });
  return list_array(*ids, plan.sharding(number), rank);
}

uint32_t rank_of(const MadePlan& made, int64_t rank) {
  return static_cast<uint32_t>(within("rank", rank, 0, made.plan.job().ranks));
}

py::array_t<uint32_t> counts_of(const MadePlan& made, int64_t rank) {
  const uint32_t who = rank_of(made, rank);
  const ReaderTable* table = made.plan.table();
  if (table == nullptr) {
    throw py::value_error("a computed placement counts no reads: plan with placement='cover'");
  }
  const auto counts = compute(
      [&](SignalWatch&) -> Result<std::vector<uint32_t>> { return access_counts(*table, who); });
  return py::array_t<uint32_t>(static_cast<py::ssize_t>(counts.size()), counts.data());
}

// Samples, tiers and offsets of what a rank owns.
py::tuple owned_by(const MadePlan& made, int64_t rank) {
  const uint32_t who = rank_of(made, rank);
  const auto owned = compute([&](SignalWatch&) -> Result<std::vector<Owned>> {
    return made.plan.placement().owned_by(who, made.plan.sizes());
  });
  const auto count = static_cast<py::ssize_t>(owned.size());
  py::array_t<int64_t> samples(count);
  py::array_t<uint8_t> tiers(count);
  py::array_t<int64_t> offsets(count);
  for (py::ssize_t i = 0; i < count; ++i) {
    samples.mutable_data()[i] = static_cast<int64_t>(owned[i].sample);
    tiers.mutable_data()[i] = static_cast<uint8_t>(owned[i].tier);
    offsets.mutable_data()[i] = static_cast<int64_t>(owned[i].offset);
  }
  return py::make_tuple(samples, tiers, offsets);
}

std::optional<std::pair<uint32_t, uint32_t>> owner_of(const MadePlan& made, int64_t sample) {
  const Owner owner =
      made.plan.placement().owner(within("sample", sample, 0, made.plan.sizes().samples()));
  if (owner.rank == kNoOwner) return std::nullopt;
  return std::pair(owner.rank, owner.tier);
}

SummaryOptions summary_options(const MadePlan& made) {
  SummaryOptions options;
  options.plan_seconds = made.seconds;
  return options;
}

// As `foreload plan --json` has it: samples that a rank reads c times, mean over ranks.
py::array_t<double> access_histogram(const MadePlan& made) {
  const auto& pairs = made.plan.traffic().access_histogram;
  py::array_t<double> mean(static_cast<py::ssize_t>(pairs.size()));
  for (size_t count = 0; count < pairs.size(); ++count) {
    mean.mutable_data()[count] = static_cast<double>(pairs[count]) / made.plan.job().ranks;
  }
  return mean;
}

std::string repr(const MadePlan& made) {
  const Plan& plan = made.plan;
  return fmt::format(
      "<foreload.Plan: {} samples ({}) on {} ranks for {} epochs, placement {}: {:.1f} % cached, "
      "{} from the source>",
      format_count(plan.sizes().samples()), format_bytes(plan.sizes().total()),
      format_count(plan.job().ranks), format_count(plan.epochs()), name_of(plan.placement().kind()),
      100 * summarise(plan).coverage, format_bytes(plan.traffic().source_bytes()));
}

}  // namespace

void register_plan(py::module_& module) {
  using Read = const MadePlan&;
  py::class_<MadePlan> plan(
      module, "Plan",
      "What a training job reads, keeps where, and costs; made by foreload.plan().");
  plan.attr("__module__") = "foreload";
  plan.def_property_readonly(
          "samples", [](Read made) { return made.plan.sizes().samples(); }, "Number of samples.")
      .def_property_readonly(
          "ranks", [](Read made) { return made.plan.job().ranks; }, "Number of ranks.")
      .def_property_readonly(
          "epochs", [](Read made) { return made.plan.epochs(); },
          "Number of epochs planned for, also where nobody said how many there will be.")
      .def_property_readonly(
          "placement", [](Read made) { return name_of(made.plan.placement().kind()); },
          "Placement used; a data set too large to count reads gets 'computed'.")
      .def_property_readonly(
          "dataset_bytes", [](Read made) { return made.plan.sizes().total(); },
          "Bytes of all samples.")
      .def_property_readonly(
          "cache_bytes", [](Read made) { return made.plan.capacities().total(); },
          "Bytes that all ranks together can keep.")
      .def_property_readonly(
          "source_bytes", [](Read made) { return made.plan.traffic().source_bytes(); },
          "Bytes read from the source over the whole job.")
      .def_property_readonly(
          "source_bytes_lower_bound",
          [](Read made) { return made.plan.traffic().source_bytes_lower_bound; },
          "The least that any cache of this size could read from the source.")
      .def_property_readonly(
          "coverage", [](Read made) { return summarise(made.plan).coverage; },
          "Share of samples that somebody keeps.")
      .def_property_readonly(
          "local_read_fraction", [](Read made) { return summarise(made.plan).local_read_fraction; },
          "Share of reads served by the reader's own memory or disk.")
      .def_property_readonly(
          "peer_read_fraction", [](Read made) { return summarise(made.plan).peer_read_fraction; },
          "Share of reads served by another rank.")
      .def_property_readonly(
          "source_read_fraction",
          [](Read made) { return summarise(made.plan).source_read_fraction; },
          "Share of reads served by the source.")
      .def_property_readonly(
          "plan_seconds", [](Read made) { return made.seconds; }, "Time it took to plan.")
      .def_property_readonly(
          "peak_rss_bytes", [](Read made) { return summarise(made.plan).peak_rss_bytes; },
          "Most memory this process has used so far.")
      .def_property_readonly(
          "digest", [](Read made) { return made.plan.digest().hex(); },
          "Equal for equal plans, on every rank and machine.")
      .def_property_readonly(
          "access_histogram", &access_histogram,
          "Entry c: samples that a rank reads c times, mean over ranks; empty for a computed "
          "placement.")
      .def_property_readonly(
          "owners",
          [](const py::object& self) {
            const Placement& placement = self.cast<Read>().plan.placement();
            need_owner_table(placement);
            return view(placement.owner_ranks(), self);
          },
          "Owner of each sample, NO_OWNER where nobody keeps it: a read-only view.")
      .def_property_readonly(
          "tiers",
          [](const py::object& self) {
            const Placement& placement = self.cast<Read>().plan.placement();
            need_owner_table(placement);
            return view(placement.owner_tiers(), self);
          },
          "Tier of each sample at its owner, 0 memory (also without owner), 1 disk: read-only.")
      .def(
          "reading_list",
          [](Read made, int64_t rank, int64_t epoch) {
            return list_of(made, rank_of(made, rank), epoch);
          },
          py::arg("rank"), py::arg("epoch"), "Samples that a rank reads in an epoch, in order.")
      .def(
          "global_list", [](Read made, int64_t epoch) { return list_of(made, {}, epoch); },
          py::arg("epoch"), "Samples that all ranks read in an epoch, rank 0 first in every step.")
      .def("access_counts", &counts_of, py::arg("rank"),
           "How often a rank reads each sample in the epochs that were counted.")
      .def("owned_by", &owned_by, py::arg("rank"),
           "What a rank owns, as arrays (samples, tiers, offsets); each tier is packed from 0.")
      .def("owner_of", &owner_of, py::arg("sample"),
           "(rank, tier) that keeps a sample, None if nobody does; for any placement.")
      .def(
          "to_dict",
          [](Read made) {
            return py::module_::import("json").attr("loads")(
                to_json(made.plan, summary_options(made)));
          },
          "All figures, as `foreload plan --json` prints them.")
      .def("__str__",
           [](Read made) {
             std::string text = to_text(made.plan, summary_options(made));
             if (text.ends_with('\n')) text.pop_back();  // print() adds one
             return text;
           })
      .def("__repr__", &repr);

  module.def("make_plan", &make_plan, py::arg("settings"), py::kw_only(), py::arg("sizes"),
             py::arg("placement"), py::arg("budgets"), py::arg("held"), py::arg("threads"));
}

}  // namespace foreload::python
