// SPDX-License-Identifier: Apache-2.0
//
// slowfs SOURCE MOUNTPOINT: shows a folder as it would be on slower storage, and counts what is
// asked of it. Stays in the foreground until it is interrupted or unmounted.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "mount.h"

namespace foreload::slowfs {
namespace {

int complain(const std::string& message, int status) {
  fmt::print(stderr, "slowfs: {}\n", message);
  return status;
}

void prepare_process(bool end_with_parent) {
  if (end_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  // Threads inherit it. The default, 50 us, would add up over the pieces of a read.
  prctl(PR_SET_TIMERSLACK, 1);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

int run_program(int argc, char** argv) {
  CLI::App app("slowfs, a folder as it would be on slower storage", "slowfs");
  std::string source;
  std::string mount_point;
  std::string stats_file;
  bool end_with_parent = false;
  std::map<std::string, std::string> given;
  app.add_option("SOURCE", source, "the folder to show; must not change meanwhile")->required();
  app.add_option("MOUNTPOINT", mount_point, "an empty folder")->required();
  for (const SettingName& setting : setting_names())
    app.add_option_function<std::string>(
        std::string("--") + setting.name,
        [&given, &setting](const std::string& value) { given[setting.name] = value; },
        setting.help);
  std::optional<uint64_t> drawn;
  app.add_option("--draw", drawn, "a number from which all settings are drawn that are not given");
  app.add_option("--stats", stats_file, "where to write the counters at the end, as JSON");
  app.add_flag("--end-with-parent", end_with_parent, "unmount when the starting process ends");
  app.footer(
      fmt::format("MOUNTPOINT/{} holds the counters; write reset or NAME=VALUE to it to set "
                  "them to zero or to change one of the settings above.",
                  kControlFile));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    return complain(std::string(error.what()) + " (see slowfs --help)", 2);
  }
  Settings settings = drawn ? draw_settings(*drawn) : Settings{};
  for (const auto& [name, value] : given) {
    if (const auto done = change(settings, name, value); !done)
      return complain(fmt::format("--{}: {}", name, done.error().message), 2);
  }
  prepare_process(end_with_parent);
  Shape shape(std::move(settings));
  if (const auto served = serve(source, mount_point, shape); !served)
    return complain(served.error().message, 1);
  if (!stats_file.empty() && !(std::ofstream(stats_file) << shape.json() << std::flush))
    return complain("cannot write the counters to " + stats_file, 1);
  return 0;
}

}  // namespace
}  // namespace foreload::slowfs

int main(int argc, char** argv) {
  try {
    return foreload::slowfs::run_program(argc, argv);
  } catch (const std::exception& error) {
    return foreload::slowfs::complain(error.what(), 1);
  }
}
