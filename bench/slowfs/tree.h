// SPDX-License-Identifier: Apache-2.0
//
// The names the kernel currently knows, as paths below the source folder. The kernel refers to a
// name by a number, here the address of its node, until it says that it has forgotten it. Any
// thread may call; the path of a node never changes. The source must not change while it is
// mounted.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace foreload::slowfs {

struct Node {
  std::string path;  // relative to the source, "." is the source itself
  uint64_t known = 0;
};

class Tree {
 public:
  Node& root() { return root_; }
  // The node of a name in a folder, known to the kernel once more than before.
  Node& enter(const Node& folder, const char* name);
  // The kernel knows it `times` less. REQUIRES: not used any more if that leaves none.
  void forget(Node& node, uint64_t times);

  static std::string join(const Node& folder, const char* name);

 private:
  Node root_{".", 1};
  std::mutex lock_;
  std::unordered_map<std::string, std::unique_ptr<Node>> nodes_;
};

}  // namespace foreload::slowfs
