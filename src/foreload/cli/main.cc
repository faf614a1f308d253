// SPDX-License-Identifier: Apache-2.0
//
// The program: chooses the verb, prints errors as one line, and turns them into exit statuses.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/base/version.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/external.h"
#include "foreload/cli/verbs.h"

namespace foreload::cli {
namespace {

int complain(const std::string& message, int status) {
  fmt::print(stderr, "foreload: {}\n", message);
  return status;
}

int exit_status(const Result<int>& result) {
  if (result) return *result;
  return complain(result.error().message,
                  result.error().kind == ErrorKind::cancelled ? kFailed : kBadInput);
}

// CLI11's messages may span lines; only the first one says what is wrong.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

int run_program(int argc, char** argv) {
  if (argc > 1 && is_external_verb(argv[1]))
    return exit_status(run_external(argv[1], std::vector<std::string>(argv + 2, argv + argc)));

  CLI::App app("foreload, the data loader that knows the future", "foreload");
  app.set_version_flag("--version", std::string("foreload ") + version());
  app.require_subcommand(1);
  app.footer(
      "foreload plot draws what --json prints, foreload report makes a page of run files, foreload "
      "watch shows a running job. Sizes are written 8GiB (or 8G, as in SLURM), 8GB, 512MiB or "
      "12345B.");
  const std::map<std::string, Run> verbs{{"advise", add_advise(app)},
                                         {"launch", add_launch(app)},
                                         {"make-images", add_make_images(app)},
                                         {"order", add_order(app)},
                                         {"plan", add_plan(app)},
                                         {"probe", add_probe(app)},
                                         {"read", add_read(app)},
                                         {"simulate", add_simulate(app)}};
  if (argc > 1 && argv[1][0] != '-' && !verbs.contains(argv[1])) {
    std::vector<std::string> known = external_verbs();
    for (const auto& [name, run] : verbs) known.push_back(name);
    std::sort(known.begin(), known.end());
    return complain(check_choice("the verb", argv[1], known).error().message, kBadInput);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help and --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty())
      return complain(first_line(error.what()) + " (see foreload --help)", kBadInput);
    return complain(parse_complaint(*app.get_subcommands().front(), error), kBadInput);
  }
  const int status = exit_status(verbs.at(app.get_subcommands().front()->get_name())());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return complain("cannot write the output: is the disk full?", kFailed);
  return status;
}

}  // namespace
}  // namespace foreload::cli

int main(int argc, char** argv) {
  try {
    return foreload::cli::run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    return foreload::cli::complain("out of memory: plan fewer epochs, or use --placement computed",
                                   foreload::cli::kFailed);
  } catch (const std::exception& error) {
    return foreload::cli::complain(foreload::cli::first_line(error.what()), foreload::cli::kFailed);
  }
}
