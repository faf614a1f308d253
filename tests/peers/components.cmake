# SPDX-License-Identifier: Apache-2.0
# Transports that are libraries of their own: where peers_test finds them, and the programs it starts
# as other ranks.
target_compile_definitions(peers_test
  PRIVATE FORELOAD_TEST_COMPONENTS="$<TARGET_FILE_DIR:foreload_peers>")
if(TARGET foreload_ucx)
  add_executable(peers_ucx_rank peers/ucx_rank.cc)
  target_link_libraries(peers_ucx_rank PRIVATE foreload_peers foreload_flags foreload_fmt)
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
  foreach(name conformance start)
    add_executable(peers_mpi_${name} peers/mpi_${name}.cc)
    target_include_directories(peers_mpi_${name} SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
    target_compile_definitions(peers_mpi_${name}
      PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX
              FORELOAD_TEST_COMPONENTS="$<TARGET_FILE_DIR:foreload_peers>")
    target_link_libraries(peers_mpi_${name} PRIVATE foreload_peers foreload_flags GTest::gtest
                                                    foreload_fmt ${MPI_mpi_LIBRARY})
    add_dependencies(peers_mpi_${name} foreload_mpi)
  endforeach()
  set(mpirun ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --mca btl self,vader,tcp)
  add_test(NAME MpiConformance COMMAND ${mpirun} -n 4 $<TARGET_FILE:peers_mpi_conformance> --gtest_brief=1)
  set_tests_properties(MpiConformance PROPERTIES TIMEOUT 120)
  foreach(how own single missing idle meet)
    add_test(NAME MpiStart.${how} COMMAND ${mpirun} -n 3 $<TARGET_FILE:peers_mpi_start> ${how})
    set_tests_properties(MpiStart.${how} PROPERTIES TIMEOUT 60)
  endforeach()
  add_test(NAME MpiStart.lost
    COMMAND ${mpirun} --enable-recovery -n 3 $<TARGET_FILE:peers_mpi_start> lost)
  set_tests_properties(MpiStart.lost PROPERTIES TIMEOUT 60
    PASS_REGULAR_EXPRESSION "rank 0 has ended MPI.*rank 1 has ended MPI;rank 1 has ended MPI.*rank 0 has ended MPI")
endif()
