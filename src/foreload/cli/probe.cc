// SPDX-License-Identifier: Apache-2.0
//
// foreload probe: measures memory, disks and sources in seconds and keeps what it found, for runs
// to start from.
#include "foreload/loader/probe.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/paths.h"
#include "foreload/base/progress.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/verbs.h"
#include "foreload/formats/format.h"
#include "foreload/loader/starting_point.h"

namespace foreload::cli {
namespace {

namespace fs = std::filesystem;

struct ProbeOptions {
  std::vector<std::string> paths;
  std::vector<std::string> sources;
  std::vector<std::string> disks;
  std::string extensions;
  std::string index;
  std::string seconds = "3";
  std::string seed = "0";
  std::string save;
  bool json = false;
};

struct Target {
  DeviceKind kind;
  fs::path path;
};

Result<std::vector<Target>> targets_of(const ProbeOptions& options,
                                       const std::vector<std::string>& extensions) {
  std::vector<Target> targets{{DeviceKind::memory, {}}};
  const auto add = [&targets](DeviceKind kind, const std::string& path) -> Result<void> {
    std::error_code error;
    if (!fs::exists(path, error))
      return fail(
          ErrorKind::unreadable,
          fmt::format("cannot measure {}: {}; check the path{}", path,
                      error ? error.message() : "there is no such folder", did_you_mean(path)));
    targets.push_back({kind, path});
    return {};
  };
  for (const std::string& path : options.paths)
    FORELOAD_CHECK(add(kind_of_path(path, extensions), path));
  for (const std::string& path : options.disks) FORELOAD_CHECK(add(DeviceKind::disk, path));
  for (const std::string& path : options.sources) FORELOAD_CHECK(add(DeviceKind::source, path));
  return targets;
}

// What was measured before, so that a file that is broken is noticed before minutes are spent.
Result<MachineProfile> profile_before(const fs::path& file) {
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) return MachineProfile{};
  auto profile = MachineProfile::load(file);
  if (!profile)
    return fail(profile.error().kind,
                profile.error().message + "; delete it, or save elsewhere with --save FILE");
  return profile;
}

Result<fs::path> file_to_save(const ProbeOptions& options) {
  if (!options.save.empty()) return fs::path(options.save);
  fs::path file = default_profile_file();
  if (file.empty())
    return fail(ErrorKind::invalid,
                "cannot tell where to save the profile: neither XDG_CACHE_HOME nor HOME is set; "
                "give --save FILE");
  return file;
}

Result<DeviceProfile> measure(const Target& target, const ProbeSettings& settings) {
  switch (target.kind) {
    case DeviceKind::memory:
      return probe_memory(settings);
    case DeviceKind::disk:
      return probe_disk(target.path, settings);
    case DeviceKind::source:
      return probe_source(target.path, settings);
  }
  return fail(ErrorKind::invalid, "unknown kind of device");
}

std::string duration(double seconds) {
  if (seconds <= 0) return "-";
  return seconds < 1e-3 ? fmt::format("{:.0f} us", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

void print_header() {
  fmt::print("MB/s with so many in flight{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>10}{:>8}\n", 1, 2, 4,
             8, 16, 32, "best", "latency", "write");
  std::fflush(stdout);
}

void print_row(const DeviceProfile& device) {
  std::string row = fmt::format("{:27}", device.name);
  if (row.size() > 27) row += fmt::format("\n{:27}", "");
  for (const unsigned level : {1, 2, 4, 8, 16, 32}) {
    const auto points = device.curve.points();
    const auto point = std::ranges::find(points, level, &Curve::Point::concurrency);
    row += fmt::format(
        "{:>7}", point == points.end() ? std::string() : fmt::format("{:.0f}", point->rate / 1e6));
  }
  row += fmt::format("{:>7}{:>10}{:>8}", device.curve.best_concurrency(), duration(device.latency),
                     device.write_rate > 0 ? fmt::format("{:.0f}", device.write_rate / 1e6) : "-");
  fmt::print("{}\n", row);
  if (!device.note.empty()) fmt::print("{:27}({})\n", "", device.note);
  std::fflush(stdout);
}

Result<int> run_probe(const ProbeOptions& options) {
  ProbeSettings settings;
  FORELOAD_TRY(const double seconds, parse_rate("--seconds", options.seconds));
  settings.time = std::chrono::duration<double>(seconds);
  FORELOAD_TRY(settings.seed, parse_count("--seed", options.seed));
  if (!options.extensions.empty()) {
    FORELOAD_TRY(settings.extensions, parse_extensions(options.extensions));
  }
  settings.index = options.index;
  FORELOAD_TRY(const auto targets, targets_of(options, settings.extensions));
  FORELOAD_TRY(const fs::path file, file_to_save(options));
  if (!options.save.empty()) FORELOAD_CHECK(check_output_file("--save", file));
  FORELOAD_TRY(MachineProfile profile, profile_before(file));
  if (!options.json) print_header();
  for (const Target& target : targets) {
    ProgressBar bar("measuring " +
                    (target.path.empty() ? std::string("memory") : target.path.native()));
    settings.progress = bar.callback();
    auto device = measure(target, settings);
    if (!device) return tl::unexpected(std::move(device).error());
    bar.update(0, 0);
    if (!options.json) print_row(*device);
    profile.put(std::move(*device));
  }
  std::error_code ignored;
  if (options.save.empty()) fs::create_directories(file.parent_path(), ignored);
  FORELOAD_CHECK(profile.save(file));
  if (options.json)
    fmt::print("{}", profile.to_json());
  else
    fmt::print("saved to {}\n", file.native());
  return 0;
}

}  // namespace

Run add_probe(CLI::App& app) {
  auto options = std::make_shared<ProbeOptions>();
  CLI::App* verb = app.add_subcommand(
      "probe", "Measure memory, disks and sources, and keep it for runs to start from");
  expands_home(verb->add_option("paths", options->paths,
                                "folders: with samples in it a source, otherwise a disk"));
  expands_home(
      verb->add_option("--source", options->sources, "a data set, whatever it looks like"));
  expands_home(verb->add_option("--disk", options->disks,
                                "a folder that may be written to, even with samples"));
  verb->add_option("--extensions", options->extensions,
                   "files that are samples, like .jpg,.png, or any (those of images)");
  expands_home(verb->add_option("--index", options->index,
                                "saved index of the source, instead of listing it"));
  verb->add_option("--seconds", options->seconds, "time for each device (3)");
  verb->add_option("--seed", options->seed, "seed of the order in which samples are read (0)");
  expands_home(verb->add_option(
      "--save", options->save,
      "file to save to (~/.cache/foreload/profile.json); devices measured before stay"));
  verb->add_flag("--json", options->json, "print the profile as JSON");
  return [options] { return run_probe(*options); };
}

}  // namespace foreload::cli
