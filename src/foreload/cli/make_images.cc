// SPDX-License-Identifier: Apache-2.0
//
// foreload make-images: a data set of photo-like JPEG files, for whoever has none at hand or must
// not show it.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"
#include "foreload/base/progress.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/verbs.h"
#include "foreload/photos/photo_set.h"

namespace foreload::cli {
namespace {

struct MakeImagesOptions {
  std::string folder;
  std::string count = "1000";
  std::string mean_size = "110KiB";
  std::string pixels;
  std::string classes = "10";
  std::string seed = "0";
  bool json = false;
};

// "500x375".
Result<ImageSize> parse_pixels(const std::string& text) {
  const size_t by = text.find('x');
  if (by == std::string::npos)
    return fail(ErrorKind::invalid,
                fmt::format("--pixels is '{}': give width and height, like 500x375", text));
  FORELOAD_TRY(const uint64_t width, parse_count("--pixels", text.substr(0, by), 1, 65'500));
  FORELOAD_TRY(const uint64_t height, parse_count("--pixels", text.substr(by + 1), 1, 65'500));
  return ImageSize{static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
}

Result<int> run_make_images(const MakeImagesOptions& options) {
  PhotoSetSettings settings;
  FORELOAD_TRY(settings.count, parse_count("--count", options.count, 1));
  FORELOAD_TRY(settings.classes, parse_count("--classes", options.classes, 1));
  FORELOAD_TRY(settings.mean_bytes, parse_size("--mean-size", options.mean_size));
  FORELOAD_TRY(settings.seed, parse_count("--seed", options.seed));
  if (!options.pixels.empty()) {
    FORELOAD_TRY(settings.mean_size, parse_pixels(options.pixels));
  }
  std::optional<ProgressBar> bar(std::in_place, "making photos");
  settings.progress = bar->callback();
  const auto begin = std::chrono::steady_clock::now();
  FORELOAD_TRY(const PhotoSetFigures made, write_photo_set(options.folder, settings));
  bar.reset();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const uint64_t mean = made.bytes / made.files;
  if (options.json) {
    const nlohmann::ordered_json report{
        {"folder", options.folder},
        {"files", made.files},
        {"classes", settings.classes},
        {"bytes", made.bytes},
        {"mean_bytes", mean},
        {"smallest_bytes", made.smallest},
        {"largest_bytes", made.largest},
        {"mean_pixels", {made.mean_size.width, made.mean_size.height}},
        {"quality", made.quality},
        {"seed", settings.seed},
        {"seconds", seconds}};
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print(
        "{}: {} photos in {} classes, {} (mean {}, {} to {}), mean {} x {} pixels, quality {}; "
        "{:.1f} s\n",
        options.folder, format_count(made.files), format_count(settings.classes),
        format_bytes(made.bytes), format_bytes(mean), format_bytes(made.smallest),
        format_bytes(made.largest), made.mean_size.width, made.mean_size.height, made.quality,
        seconds);
  }
  return 0;
}

}  // namespace

Run add_make_images(CLI::App& app) {
  auto options = std::make_shared<MakeImagesOptions>();
  CLI::App* verb = app.add_subcommand("make-images", "Make a data set of photo-like JPEG files");
  expands_home(
      verb->add_option("folder", options->folder, "where to: a new or empty folder")->required());
  verb->add_option("--count", options->count, "number of files (1000)");
  verb->add_option("--mean-size", options->mean_size, "mean size of a file (110KiB)");
  verb->add_option("--pixels", options->pixels,
                   "mean width and height, like 500x375 (what the size of a file gives at four "
                   "bits a pixel)");
  verb->add_option("--classes", options->classes, "number of class folders (10)");
  verb->add_option("--seed", options->seed, "the same seed gives the same files (0)");
  verb->add_flag("--json", options->json, "print one JSON object");
  return [options] { return run_make_images(*options); };
}

}  // namespace foreload::cli
