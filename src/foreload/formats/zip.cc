// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/zip.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/formats/zip_directory.h"

namespace foreload {
namespace {

constexpr std::string_view kZipStart("PK\x03\x04", 4);
constexpr std::string_view kEmptyZip("PK\x05\x06", 4);

// As if the archive were unpacked.
std::vector<StoredFolder> folders_of_zip(const std::vector<ZipMember>& members) {
  std::map<std::string, StoredFolder> folders;
  folders.try_emplace("");
  const auto add_folder = [&folders](std::string name) {
    while (folders.try_emplace(name).second)
      name.resize(name.rfind('/') == std::string::npos ? 0 : name.rfind('/'));
  };
  for (const ZipMember& member : members) {
    const size_t slash = member.name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : member.name.substr(0, slash);
    add_folder(folder);
    if (!member.name.ends_with('/'))
      folders[folder].objects.push_back({member.name, member.length, 0});
  }
  std::vector<StoredFolder> list;
  for (auto& [name, folder] : folders) {
    folder.name = name;
    std::ranges::sort(folder.objects, {}, &StoredObject::name);
    list.push_back(std::move(folder));
  }
  return list;
}

Result<DatasetIndex> index_of_zip(const ObjectReader& archive, const std::string& where,
                                  const std::string& store, const ListingOptions& options) {
  const StoredObject& object = archive.object();
  const auto read = [&archive](const std::vector<ZipRange>& ranges) {
    return archive.read(ranges);
  };
  FORELOAD_TRY(const std::vector<ZipMember> members, read_zip(where, object.size, read));
  FORELOAD_TRY(const Listing listing, sort_by_class(where, folders_of_zip(members), options));
  std::unordered_map<std::string_view, const ZipMember*> by_name;
  for (const ZipMember& member : members) by_name[member.name] = &member;
  IndexBuilder builder;
  builder.set_store(store);
  for (const std::string& name : listing.classes) builder.add_class(name);
  FORELOAD_TRY(const uint32_t number, builder.add_object(object.name, object.size, object.version));
  for (size_t i = 0; i < listing.files.size(); ++i) {
    const ZipMember& member = *by_name.at(listing.files[i].name);
    const Part part{number, member.offset, member.length, {}};
    FORELOAD_CHECK(builder.add_sample({&part, 1}, listing.labels[i], member.name));
  }
  return builder.finish();
}

}  // namespace

bool is_zip(const GivenDataset& given, const std::optional<std::string>& start) {
  if (!start) return false;
  return start->starts_with(kZipStart) || start->starts_with(kEmptyZip) ||
         lower_case(given.uri).ends_with(".zip");
}

Result<FoundDataset> find_zip(const GivenDataset&, std::shared_ptr<const Store> store,
                              const ListingOptions& options) {
  // Its objects are relative to the folder that it is in.
  const std::string where = store->where();
  const std::string uri = store->uri();
  const size_t slash = uri.rfind('/');
  FORELOAD_TRY(std::shared_ptr<const Store> folder,
               open_store(uri.substr(0, std::max<size_t>(slash, uri.find("://") + 4))));
  FORELOAD_TRY(const ObjectReader archive,
               ObjectReader::open(folder, uri.substr(slash + 1), options.call()));
  Digester digester;
  digester.add(std::string_view(uri)).add(std::string_view("zip"));
  digester.add(archive.object().size).add(archive.object().version);
  add_extensions(options.extensions, digester);
  return FoundDataset{folder, digester.digest(), [archive, where, folder, options] {
                        return index_of_zip(archive, where, folder->uri(), options);
                      }};
}

}  // namespace foreload
