// SPDX-License-Identifier: Apache-2.0
//
// Opens libraries of others into this process, and keeps them from what they do to it while they
// are loaded: signal handlers stay the program's, threads they start get no signals, and what they
// only read from the environment can be set for that moment. None is ever closed: such libraries do
// not like to be loaded twice. Any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace foreload {

// Runs `load` so, with these variables ("NAME=value") in the environment besides its own; what the
// user set stays. One at a time in a process.
void load_guarded(const std::vector<std::string>& environment, const std::function<void()>& load);

// Sets a pointer to the function of that name; false if the library has none.
template <class Function>
bool look_up(void* symbol, Function*& into) {
  into = reinterpret_cast<Function*>(symbol);
  return into != nullptr;
}

}  // namespace foreload
