// SPDX-License-Identifier: Apache-2.0
#include "foreload/photos/photo_set.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/cpus.h"
#include "foreload/base/files.h"
#include "foreload/base/parallel.h"
#include "foreload/base/random.h"
#include "foreload/photos/jpeg_writer.h"
#include "foreload/photos/photo.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

constexpr double kBitsPerPixel = 4.1;
constexpr uint64_t kLeastBytes = 1 << 10;
constexpr uint64_t kMostBytes = 32 << 20;
constexpr uint32_t kLeastSide = 16;
constexpr uint32_t kMostSide = 20'000;
constexpr uint64_t kTrials = 24;

uint64_t class_of(uint64_t number, const PhotoSetSettings& settings) {
  // In two steps, because the product may not fit.
  const uint64_t each = settings.count / settings.classes;
  const uint64_t longer = settings.count % settings.classes;  // classes with one more
  const uint64_t in_longer = longer * (each + 1);
  return number < in_longer ? number / (each + 1) : longer + (number - in_longer) / each;
}

// Digits enough for all numbers, so that paths sort as numbers do.
size_t digits(uint64_t count, size_t least) {
  return std::max(least, fmt::formatted_size("{}", count - 1));
}

std::string class_folder(uint64_t number, const PhotoSetSettings& settings) {
  return fmt::format("class{:0{}}", number, digits(settings.classes, 4));
}

// One photo of the set, whose area is `scale` times what was wanted.
class PhotoMaker {
 public:
  PhotoMaker(const PhotoSetSettings& settings, double area, double ratio)
      : settings_(settings), area_(area), ratio_(ratio) {}

  // Of a photo on average, before scaling; pixels.
  double area() const { return area_; }
  ImageSize size_of(uint64_t number, double scale) const {
    const auto [first, second] = philox_normal(settings_.seed, number, 1);
    constexpr double kSpread = 0.35;
    const double z = std::clamp(first, -2.5, 2.5);
    const double area = area_ * scale * std::exp(kSpread * z - kSpread * kSpread / 2);
    const double ratio = ratio_ * std::exp(0.22 * std::clamp(second, -2.5, 2.5));
    const auto side = [](double length) {
      return static_cast<uint32_t>(std::clamp(std::round(length), double{kLeastSide}, 65'500.0));
    };
    return {side(std::sqrt(area * ratio)), side(std::sqrt(area / ratio))};
  }
  void paint(uint64_t number, double scale, PixelBuffer& pixels) const {
    make_photo(size_of(number, scale), mix64(mix64(settings_.seed) + number),
               mix64(mix64(settings_.seed ^ 0x636c617373) + class_of(number, settings_)), pixels);
  }

 private:
  const PhotoSetSettings& settings_;
  double area_;
  double ratio_;  // width over height
};

struct Fit {
  int quality = 0;
  double scale = 1;  // of areas
};

// The quality at which some of the photos come closest to the mean, and how much their area must
// change for the rest.
Result<Fit> fit(const PhotoMaker& maker, const PhotoSetSettings& settings) {
  const uint64_t trials = std::min(kTrials, settings.count);
  std::vector<PixelBuffer> photos(trials);
  for (uint64_t i = 0; i < trials; ++i) maker.paint(i * (settings.count / trials), 1, photos[i]);
  // By bytes per pixel, because a few photos are larger or smaller than all of them on average.
  const auto mean_at = [&](int quality) -> Result<double> {
    uint64_t bytes = 0, pixels = 0;
    for (const PixelBuffer& photo : photos) {
      FORELOAD_TRY(const auto file, write_jpeg(photo.view(), {quality}));
      bytes += file.size();
      pixels += uint64_t{photo.size().width} * photo.size().height;
    }
    return static_cast<double>(bytes) / static_cast<double>(pixels) * maker.area();
  };
  const auto wanted = static_cast<double>(settings.mean_bytes);
  int low = 1, high = 100;  // the first quality that gives enough
  while (low < high) {
    const int middle = (low + high) / 2;
    FORELOAD_TRY(const double mean, mean_at(middle));
    if (mean < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  FORELOAD_TRY(const double mean, mean_at(high));
  Fit found{high, wanted / mean};
  if (high > 1) {
    FORELOAD_TRY(const double below, mean_at(high - 1));
    if (std::abs(std::log(wanted / below)) < std::abs(std::log(found.scale)))
      found = {high - 1, wanted / below};
  }
  if (found.scale < 0.5 || found.scale > 2) {
    FORELOAD_TRY(const double least, mean_at(1));
    FORELOAD_TRY(const double most, mean_at(100));
    return fail(
        ErrorKind::invalid,
        fmt::format("photos of {} x {} pixels cannot have {} on average, only {} to {}: "
                    "give another size in pixels or in bytes",
                    settings.mean_size.width, settings.mean_size.height,
                    format_bytes(settings.mean_bytes), format_bytes(static_cast<uint64_t>(least)),
                    format_bytes(static_cast<uint64_t>(most))));
  }
  return found;
}

Result<void> check(const PhotoSetSettings& settings) {
  const auto refuse = [](std::string message) {
    return Result<void>(fail(ErrorKind::invalid, std::move(message)));
  };
  if (settings.count == 0 || settings.classes == 0 || settings.classes > settings.count)
    return refuse(fmt::format("{} photos cannot fill {} classes: give at least one for each",
                              settings.count, settings.classes));
  if (settings.mean_bytes < kLeastBytes || settings.mean_bytes > kMostBytes)
    return refuse(fmt::format("photos of {} on average cannot be made: give {} to {}",
                              format_bytes(settings.mean_bytes), format_bytes(kLeastBytes),
                              format_bytes(kMostBytes)));
  const auto [width, height] = settings.mean_size;
  if ((width == 0) != (height == 0) || (width != 0 && std::min(width, height) < kLeastSide) ||
      std::max(width, height) > kMostSide)
    return refuse(fmt::format("photos of {} x {} pixels cannot be made: give sides of {} to {}",
                              width, height, kLeastSide, kMostSide));
  return {};
}

tl::unexpected<Error> cannot_write(const fs::path& path, int error) {
  return fail(ErrorKind::unreadable,
              fmt::format("cannot write {}: {}. Choose a folder with room that can be written.",
                          path.native(), std::generic_category().message(error)));
}

// Makes the folder; false if it was there.
Result<bool> make_folder(const fs::path& folder, const PhotoSetSettings& settings) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) return cannot_write(folder, error.value());
  if (!made && fs::directory_iterator(folder, error) != fs::directory_iterator())
    return fail(ErrorKind::invalid,
                fmt::format("cannot make a data set in {}: something is in it. Give a new folder.",
                            folder.native()));
  if (error) return cannot_write(folder, error.value());
  const auto room = fs::space(folder, error);
  const double needed =
      static_cast<double>(settings.count) * static_cast<double>(settings.mean_bytes);
  if (!error && needed > static_cast<double>(room.available)) {
    if (made) fs::remove(folder, error);
    return fail(
        ErrorKind::unreadable,
        fmt::format("cannot make {} photos of {} in {}: it has room for {} only; make fewer "
                    "or smaller ones, or choose another folder",
                    format_count(settings.count), format_bytes(settings.mean_bytes),
                    folder.native(), format_bytes(room.available)));
  }
  return made;
}

int write_file(const fs::path& path, std::span<const std::byte> bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  int error = write_all(fd, bytes);
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

// What the writers share.
struct Writing {
  std::mutex mutex;  // guards the rest
  PhotoSetFigures figures;
  double width_sum = 0, height_sum = 0;
  std::optional<Error> error;  // the first one
};

Result<PhotoSetFigures> write_files(const fs::path& folder, const PhotoSetSettings& settings,
                                    const PhotoMaker& maker, const Fit& fitted) {
  for (uint64_t i = 0; i < settings.classes; ++i) {
    std::error_code error;
    fs::create_directory(folder / class_folder(i, settings), error);
    if (error) return cannot_write(folder / class_folder(i, settings), error.value());
  }
  Writing writing;
  std::atomic<bool> stop{false};
  const unsigned threads = settings.threads != 0 ? settings.threads : available_cpus();
  std::vector<PixelBuffer> buffers(threads);
  const auto one = [&](uint64_t number, unsigned worker) {
    if (stop) return;
    PixelBuffer& pixels = buffers[worker];
    maker.paint(number, fitted.scale, pixels);
    const auto file = write_jpeg(pixels.view(), {fitted.quality});
    const fs::path path = folder / photo_path(number, settings);
    const int error = file ? write_file(path, *file) : 0;
    const std::lock_guard lock(writing.mutex);
    if (!file || error != 0) {
      stop = true;
      if (!writing.error) writing.error = file ? cannot_write(path, error).value() : file.error();
      return;
    }
    PhotoSetFigures& figures = writing.figures;
    figures.smallest = figures.files == 0 ? file->size() : std::min(figures.smallest, file->size());
    figures.largest = std::max(figures.largest, file->size());
    figures.bytes += file->size();
    ++figures.files;
    writing.width_sum += pixels.size().width;
    writing.height_sum += pixels.size().height;
  };
  const auto go_on = [&](uint64_t done, uint64_t total) {
    return !stop && (!settings.progress || settings.progress(done, total));
  };
  const bool finished = parallel_for(settings.count, threads, one, go_on);
  if (writing.error) return tl::unexpected(*writing.error);
  if (!finished) return fail(ErrorKind::cancelled, "making photos was cancelled");
  const auto mean = [&](double sum) {
    return static_cast<uint32_t>(std::lround(sum / static_cast<double>(settings.count)));
  };
  writing.figures.mean_size = {mean(writing.width_sum), mean(writing.height_sum)};
  writing.figures.quality = fitted.quality;
  return writing.figures;
}

}  // namespace

std::string photo_path(uint64_t number, const PhotoSetSettings& settings) {
  return fmt::format("{}/{:0{}}.jpg", class_folder(class_of(number, settings), settings), number,
                     digits(settings.count, 8));
}

Result<PhotoSetFigures> write_photo_set(const fs::path& folder, const PhotoSetSettings& given) {
  FORELOAD_CHECK(check(given));
  PhotoSetSettings settings = given;
  if (settings.mean_size == ImageSize{}) {
    const double area = static_cast<double>(settings.mean_bytes) * 8 / kBitsPerPixel;
    constexpr double kRatio = 1.15;
    const auto side = [](double length) {
      return std::max(kLeastSide, static_cast<uint32_t>(std::lround(length)));
    };
    settings.mean_size = {side(std::sqrt(area * kRatio)), side(std::sqrt(area / kRatio))};
  }
  FORELOAD_TRY(const bool made, make_folder(folder, settings));
  const double width = settings.mean_size.width, height = settings.mean_size.height;
  const PhotoMaker maker(settings, width * height, width / height);
  auto written = fit(maker, settings).and_then([&](const Fit& fitted) {
    return write_files(folder, settings, maker, fitted);
  });
  if (!written) {
    std::error_code ignored;
    for (uint64_t i = 0; i < settings.classes; ++i)
      fs::remove_all(folder / class_folder(i, settings), ignored);
    if (made) fs::remove(folder, ignored);
  }
  return written;
}

}  // namespace foreload
