// SPDX-License-Identifier: Apache-2.0
//
// Objects behind a web server as a store, through libcurl (curl.h). Reads are ranges, many in
// flight on one thread, over connections that are kept. An object's version is made of its size and
// of what the server says of it (ETag, or when it was last modified), and each answer is compared
// with it.
//
// A web server has no listing; what it has are pages for people, in which every name of a folder is
// a link (nginx's autoindex, Apache's, Python's, rclone's). Those are read. Objects are written and
// removed with PUT and DELETE where the server allows it, and collected in memory before.
#pragma once

#include <string>

#include "foreload/stores/store.h"

namespace foreload {

// http:// or https://. Asks nobody. Fails with `unsupported` without libcurl.
Result<std::unique_ptr<Store>> open_http_store(const std::string& uri);

}  // namespace foreload
