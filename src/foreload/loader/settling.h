// SPDX-License-Identifier: Apache-2.0
//
// What a loader decides before it opens anything, from what the user set, what a profile says and
// how large samples are: the order of its tiers and what each may hold, memory for batches, and how
// many requests every path begins with.
#pragma once

#include <cstdint>
#include <filesystem>

#include "foreload/loader/loader.h"
#include "foreload/model/profile.h"
#include "foreload/plan/sizes.h"
#include "foreload/policy/policy.h"

namespace foreload {

// What is read, when and by whom; where it is kept, others add.
Job job_of(const LoaderSettings& settings);

// Leaves this rank its part of the node's budgets.
void share_budgets(LoaderSettings& settings);

// Puts a slower source in front of the data set's, where the user asked for one.
void slow_down_source(LoaderSettings& settings);

// Bytes for batches where the user named none: room for three, as files (of sizes `made_from`, if
// something else is kept and null if not), as kept, of these sizes, and decoded, where their
// size is known: one that the loop has, one that is ready, one that is being made. Six where they
// go on to a device, whose queue hides a slow moment only as long as there are finished batches.
uint64_t usual_staging(const LoaderSettings& settings, const Sizes& sizes, const Sizes* made_from);

// Sorts the disks, the fastest first, and writes down the tiers.
void settle_tiers(LoaderSettings& settings, const MachineProfile& machine, LoaderStart& start);

// Bytes of samples that this rank can use caches for: all, or of ranks that are one cache its share
// and room for what does not divide evenly.
uint64_t needed_bytes(const Sizes& sizes, const LoaderSettings& settings);

// Leaves of each budget what a data set of these sizes can use; disks that would hold nothing go.
// REQUIRES: settle_tiers() came before.
void cut_budgets(const Sizes& sizes, LoaderSettings& settings, LoaderStart& start);

// How many requests each path begins with, and may have. All ranks share the source, which is at
// `root`, `local` of them the disks of this host. REQUIRES: settle_tiers() came before.
void settle_limiters(const LoaderSettings& settings, const MachineProfile& machine,
                     const std::filesystem::path& root, uint32_t local, LoaderStart& start,
                     PolicySettings& policy);

// How fast each path is for this rank while all use it, as far as the profile says; likewise. What
// one of several nodes was seen to get from the source says nothing about its share.
void settle_speeds(const LoaderSettings& settings, const MachineProfile& machine,
                   const std::filesystem::path& root, uint32_t local, PolicySettings& policy);

// Disks that the profile says are slower than this rank's share of the source get no room in the
// plan, where time counts and the share is known: all ranks are on this node.
void leave_out_slow_disks(const LoaderSettings& settings, const MachineProfile& machine,
                          const LoaderStart& start, Job& job);

}  // namespace foreload
