// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/listing.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "foreload/base/bytes.h"
#include "foreload/base/text.h"
#include "foreload/formats/unsupported.h"

namespace foreload {
namespace {

std::string_view last_name(std::string_view name) {
  return name.substr(name.rfind('/') + 1);
}

// Which samples are in the folders of a store.
class Classes {
 public:
  Classes(std::string root, std::vector<StoredFolder> folders, const ListingOptions& options)
      : root_(std::move(root)), folders_(std::move(folders)) {
    for (const std::string& extension : options.extensions)
      extensions_.push_back(lower_case(extension));
  }

  Result<Listing> samples();

 private:
  bool wanted(std::string_view name) const;
  std::string wanted_files() const;
  tl::unexpected<Error> no_samples(size_t beside) const;

  const std::string root_;
  std::vector<StoredFolder> folders_;
  std::vector<std::string> extensions_;  // lower case
  Endings skipped_;                      // of files without a wanted extension
  size_t classes_ = 0;
};

bool Classes::wanted(std::string_view name) const {
  if (extensions_.empty()) return true;
  const std::string lower = lower_case(name);
  return std::any_of(extensions_.begin(), extensions_.end(),
                     [&lower](const std::string& end) { return lower.ends_with(end); });
}

std::string Classes::wanted_files() const {
  if (extensions_.empty()) return "files";
  return fmt::format("files that end in {}", fmt::join(extensions_, ", "));
}

Result<Listing> Classes::samples() {
  Listing listing;
  for (const StoredFolder& folder : folders_) {
    if (!folder.name.empty() && folder.name.find('/') == std::string::npos)
      listing.classes.push_back(folder.name);
  }
  classes_ = listing.classes.size();
  const bool flat = classes_ == 0;
  const auto label_of = [&listing](const StoredFolder& folder) {
    const auto name = std::string_view(folder.name).substr(0, folder.name.find('/'));
    return static_cast<uint32_t>(std::ranges::lower_bound(listing.classes, name) -
                                 listing.classes.begin());
  };
  // By label first: class "a" comes before class "a-b", yet "a-b" sorts before "a/x".
  std::vector<std::pair<uint32_t, StoredFolder*>> order;
  size_t beside = 0;  // wanted files that no class has
  size_t count = 0;
  for (StoredFolder& folder : folders_) {
    std::erase_if(folder.objects, [this](const StoredObject& object) {
      const std::string_view name = last_name(object.name);
      if (wanted(name)) return false;
      ++skipped_[ending_of(name)];
      return true;
    });
    if (!flat && folder.name.empty()) {
      beside = folder.objects.size();
      continue;
    }
    order.emplace_back(flat ? 0 : label_of(folder), &folder);
    count += folder.objects.size();
  }
  if (count == 0) return no_samples(beside);
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->name) < std::tie(b.first, b.second->name);
  });
  listing.files.reserve(count);
  listing.labels.reserve(count);
  std::vector<bool> has_files(classes_);
  for (const auto& [label, folder] : order) {
    if (!flat && !folder->objects.empty()) has_files[label] = true;
    listing.labels.insert(listing.labels.end(), folder->objects.size(), label);
    std::ranges::move(folder->objects, std::back_inserter(listing.files));
  }
  const auto empty = std::find(has_files.begin(), has_files.end(), false);
  if (empty != has_files.end()) {
    const auto others = std::count(empty + 1, has_files.end(), false);
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot use folder {}: its class folder {}{} holds no {}; remove it, "
                    "or give the extensions to take",
                    root_, listing.classes[static_cast<size_t>(empty - has_files.begin())],
                    others > 0 ? fmt::format(" (like {} others)", others) : "", wanted_files()));
  }
  for (StoredFolder& folder : folders_) folder.objects = {};
  listing.folders = std::move(folders_);
  return listing;
}

tl::unexpected<Error> Classes::no_samples(size_t beside) const {
  if (beside > 0)
    return fail(ErrorKind::invalid,
                fmt::format("cannot use folder {}: its {} sub-folders hold no {}, and the {} in "
                            "the folder itself count only where it has no sub-folders; remove the "
                            "sub-folders, or put the files into one folder per class",
                            root_, classes_, wanted_files(), format_count(beside)));
  std::string why = why_not_dataset(root_, skipped_);
  if (!why.empty()) return fail(ErrorKind::invalid, std::move(why));
  return fail(ErrorKind::invalid,
              fmt::format("cannot use folder {}: it holds no {}, but {}; check the path, or say "
                          "which files are samples (--extensions, extensions=)",
                          root_, wanted_files(), most_frequent(skipped_)));
}

}  // namespace

void add_extensions(const std::vector<std::string>& extensions, Digester& identity) {
  std::set<std::string> sorted;
  for (const std::string& extension : extensions) sorted.insert(lower_case(extension));
  for (const std::string& extension : sorted) identity.add(std::string_view(extension));
}

const std::vector<std::string>& image_extensions() {
  static const std::vector<std::string> extensions{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                   ".pgm", ".tif",  ".tiff", ".webp"};
  return extensions;
}

Result<Listing> sort_by_class(const std::string& root, std::vector<StoredFolder> folders,
                              const ListingOptions& options) {
  return Classes(root, std::move(folders), options).samples();
}

Result<Listing> list_folder(const Store& store, const ListingOptions& options) {
  auto folders = store.list("", options.call());
  if (!folders) {
    std::string why = why_not_dataset(store.where());
    if (!why.empty()) return fail(ErrorKind::invalid, std::move(why));
    return tl::unexpected(std::move(folders).error());
  }
  FORELOAD_TRY(Listing listing, sort_by_class(store.where(), std::move(*folders), options));
  FORELOAD_CHECK(
      store.stat(listing.files, options.call(), [&](size_t file, const std::string& why) {
        const std::string root = store.where();
        return Error{
            ErrorKind::unreadable,
            fmt::format("cannot stat file {}{}{}: {}; make it readable, or remove it", root,
                        root.ends_with('/') ? "" : "/", listing.files[file].name, why)};
      }));
  return listing;
}

}  // namespace foreload
