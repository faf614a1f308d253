// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include <gtest/gtest.h>

namespace foreload::peers {
namespace {

TEST(MpiLibrary, WhatItSaysOfItselfDecides) {
  EXPECT_EQ(module_for_mpi("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"),
            "mpi_openmpi");
  EXPECT_EQ(module_for_mpi("MPICH Version:      4.0.2\nMPICH Release date: ..."), "mpi_mpich");
  EXPECT_EQ(module_for_mpi("Intel(R) MPI Library 2021.11 for Linux* OS"), "mpi_mpich");
  EXPECT_EQ(module_for_mpi("MVAPICH Version:  3.0"), "mpi_mpich");
  EXPECT_EQ(module_for_mpi("Pigeon MPI 1.0"), "");
}

// Loaded as Python loads what an extension needs: visible to that alone.
bool found_after_loading(const char* library, const std::string& module) {
  if (::dlopen(library, RTLD_NOW | RTLD_LOCAL) == nullptr) return false;
  const auto found = find_mpi_module();
  return found && *found == module && ::dlsym(RTLD_DEFAULT, "MPI_Init_thread") != nullptr;
}

// What is loaded stays loaded, so each in a process of its own.
class MpiLibraryDeathTest : public testing::Test {
 protected:
  MpiLibraryDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(MpiLibraryDeathTest, TheOneThatIsLoadedCounts) {
  EXPECT_EXIT(std::_Exit(found_after_loading("libmpi.so.40", "mpi_openmpi") ? 0 : 1),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(found_after_loading("libmpich.so.12", "mpi_mpich") ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

// Open MPI's mpirun says which, whatever else is installed.
TEST_F(MpiLibraryDeathTest, WithoutOneTheLauncherDecides) {
  const auto started_by = [](const char* variable, const std::string& module) {
    ::setenv(variable, "2", 1);
    const auto found = find_mpi_module();
    return found && *found == module;
  };
  EXPECT_EXIT(std::_Exit(started_by("OMPI_COMM_WORLD_SIZE", "mpi_openmpi") ? 0 : 1),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(started_by("PMI_SIZE", "mpi_mpich") ? 0 : 1), testing::ExitedWithCode(0),
              "");
}

}  // namespace
}  // namespace foreload::peers
