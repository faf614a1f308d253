// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/store.h"

#include <algorithm>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/stores/file_store.h"

namespace foreload {
namespace {

using Maker = Result<std::unique_ptr<Store>> (*)(const std::string& uri);

// A kind of address: what opens it, or what it is called and what works instead.
struct Scheme {
  std::vector<std::string_view> names;
  Maker open;  // null: not read yet
  std::string_view what;
  std::string_view instead;  // {} is the address
};

Result<std::unique_ptr<Store>> open_path(const std::string& path) {
  return std::make_unique<FileStore>(path);
}

Result<std::unique_ptr<Store>> open_file_uri(const std::string& uri) {
  const std::string path = uri.substr(std::string_view("file://").size());
  if (path.starts_with('/')) return open_path(path);
  return fail(ErrorKind::invalid,
              fmt::format("cannot read {} as a data set: it names no path of this machine; write "
                          "the path alone, or file:///path",
                          uri));
}

const std::vector<Scheme>& schemes() {
  static const std::vector<Scheme> table{
      {{""}, open_path, "", ""},
      {{"file"}, open_file_uri, "", ""},
      {{"s3", "s3a", "s3n"},
       nullptr,
       "an S3 bucket",
       "copy it (aws s3 sync {} DIR) or mount it, and give the folder"},
      {{"gs", "gcs"},
       nullptr,
       "a Google Cloud Storage bucket",
       "copy it (gcloud storage rsync -r {} DIR) or mount it, and give the folder"},
      {{"az", "abfs", "abfss", "wasb", "wasbs", "adl"},
       nullptr,
       "an Azure container",
       "copy it (azcopy copy {} DIR --recursive) or mount it, and give the folder"},
      {{"hdfs", "webhdfs"},
       nullptr,
       "a folder in HDFS",
       "copy it (hdfs dfs -get {} DIR) or mount it, and give the folder"},
      {{"http", "https", "ftp"},
       nullptr,
       "a web address",
       "download it, unpack it, and give the folder"},
      {{"hf"},
       nullptr,
       "a Hugging Face address",
       "download its files, and give a folder of images"},
  };
  return table;
}

std::string_view scheme_of(std::string_view text) {
  const size_t end = text.find("://");
  return end == std::string_view::npos || text.find('/') < end ? "" : text.substr(0, end);
}

std::string known() {
  std::string text = "paths";
  for (const Scheme& scheme : schemes()) {
    if (scheme.open != nullptr && !scheme.names.front().empty())
      text += fmt::format(" and {}://", scheme.names.front());
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(const std::string& uri) {
  static const Scheme other{
      {}, nullptr, "a URL", "copy the data to a file system, and give the folder"};
  const std::string name = lower_case(scheme_of(uri));
  const auto& table = schemes();
  const auto found = std::find_if(table.begin(), table.end(), [&name](const Scheme& scheme) {
    return std::find(scheme.names.begin(), scheme.names.end(), name) != scheme.names.end();
  });
  const Scheme& scheme = found == table.end() ? other : *found;
  if (scheme.open != nullptr) return scheme.open(uri);
  return fail(
      ErrorKind::invalid,
      fmt::format("cannot read {} as a data set: it is {}, which foreload does not read "
                  "yet (it reads {}); {}",
                  uri, scheme.what, known(), fmt::format(fmt::runtime(scheme.instead), uri)));
}

}  // namespace foreload
