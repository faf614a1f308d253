// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <algorithm>

namespace foreload::slowfs {

std::string Tree::join(const Node& folder, const char* name) {
  return folder.path == "." ? std::string(name) : folder.path + "/" + name;
}

Node& Tree::enter(const Node& folder, const char* name) {
  std::string path = join(folder, name);
  const std::lock_guard lock(lock_);
  auto& node = nodes_[path];
  if (!node) node = std::make_unique<Node>(Node{std::move(path)});
  ++node->known;
  return *node;
}

void Tree::forget(Node& node, uint64_t times) {
  if (&node == &root_) return;
  const std::lock_guard lock(lock_);
  node.known -= std::min(node.known, times);
  // A copy: erase() may destroy the key it was given before it is done with it.
  if (node.known == 0) nodes_.erase(std::string(node.path));
}

}  // namespace foreload::slowfs
