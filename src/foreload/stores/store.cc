// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/store.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "foreload/base/text.h"
#include "foreload/stores/file_store.h"
#include "foreload/stores/http_store.h"

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
      {{"http", "https"}, open_http_store, "", ""},
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
      {{"ftp", "ftps"}, nullptr, "an FTP server", "download it, unpack it, and give the folder"},
      {{"hf"},
       nullptr,
       "a Hugging Face address",
       "download its files, and give a folder of images"},
  };
  return table;
}

std::string known() {
  std::vector<std::string> names;
  for (const Scheme& scheme : schemes()) {
    if (scheme.open != nullptr && !scheme.names.front().empty())
      names.push_back(fmt::format("{}://", scheme.names.front()));
  }
  const std::string last = names.back();
  names.back() = "paths";
  std::ranges::rotate(names, names.end() - 1);
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

}  // namespace

std::string_view scheme_of(std::string_view uri) {
  const size_t end = uri.find("://");
  return end == std::string_view::npos || uri.find('/') < end ? "" : uri.substr(0, end);
}

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
