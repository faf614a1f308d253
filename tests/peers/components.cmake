# SPDX-License-Identifier: Apache-2.0
# Transports that are libraries of their own: where peers_test finds them, and the programs it starts
# as other ranks.
target_compile_definitions(peers_test
  PRIVATE FORELOAD_TEST_COMPONENTS="$<TARGET_FILE_DIR:foreload_peers>")
if(TARGET foreload_ucx)
  add_executable(peers_ucx_rank peers/ucx_rank.cc)
  target_link_libraries(peers_ucx_rank PRIVATE foreload_peers foreload_flags fmt::fmt-header-only)
  add_dependencies(peers_test foreload_ucx peers_ucx_rank)
  # Tags and frames are tested one by one.
  find_package(OpenSSL 3 QUIET COMPONENTS Crypto)
  target_sources(peers_test PRIVATE ${PROJECT_SOURCE_DIR}/src/foreload/peers/ucx/frame.cc
                                    ${PROJECT_SOURCE_DIR}/src/foreload/peers/ucx/seal.cc)
  target_link_libraries(peers_test PRIVATE OpenSSL::Crypto)
  target_compile_definitions(peers_test
    PRIVATE FORELOAD_TEST_UCX FORELOAD_TEST_UCX_RANK="$<TARGET_FILE:peers_ucx_rank>")
endif()
# Real processes under mpirun; the sanitizers find much in MPI that is not foreload's.
find_package(MPI QUIET COMPONENTS CXX)
if(TARGET foreload_mpi AND MPIEXEC_EXECUTABLE AND NOT FORELOAD_SANITIZE)
  add_executable(peers_mpi_conformance peers/mpi_conformance.cc)
  target_include_directories(peers_mpi_conformance SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
  target_compile_definitions(peers_mpi_conformance
    PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX
            FORELOAD_TEST_COMPONENTS="$<TARGET_FILE_DIR:foreload_peers>")
  target_link_libraries(peers_mpi_conformance PRIVATE foreload_peers foreload_flags GTest::gtest
                                                      fmt::fmt-header-only ${MPI_mpi_LIBRARY})
  add_dependencies(peers_mpi_conformance foreload_mpi)
  add_test(NAME MpiConformance
           COMMAND ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe -n 4 --mca btl self,vader,tcp
                   $<TARGET_FILE:peers_mpi_conformance> --gtest_brief=1)
  set_tests_properties(MpiConformance PROPERTIES TIMEOUT 120)
endif()
