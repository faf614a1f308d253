# SPDX-License-Identifier: Apache-2.0
# The same tests with Open MPI and with MPICH: programs that are linked to one of them, started by its
# own mpirun. Which of the two is the system's default does not matter.
function(foreload_need_program variable name debian)
  find_program(${variable} ${name})
  if(NOT ${variable})
    message(FATAL_ERROR "the tests of foreload need ${name}: install it (Debian, Ubuntu: apt-get install ${debian})")
  endif()
endfunction()
function(foreload_need_mpi variable debian)
  find_library(${variable} NAMES ${ARGN})
  if(NOT ${variable})
    message(FATAL_ERROR "the tests of foreload need ${ARGN}: install it (Debian, Ubuntu: apt-get install ${debian})")
  endif()
endfunction()
foreload_need_program(FORELOAD_MPIRUN_OPENMPI mpirun.openmpi openmpi-bin)
foreload_need_program(FORELOAD_MPIRUN_MPICH mpiexec.mpich mpich)
foreload_need_mpi(FORELOAD_OPENMPI_LIBRARY libopenmpi-dev libmpi.so.40)
foreload_need_mpi(FORELOAD_MPICH_LIBRARY libmpich-dev libmpich.so.12 libmpi.so.12)

function(foreload_mpi_tests mpi title includes library)
  foreach(name conformance start)
    set(program peers_${mpi}_${name})
    add_executable(${program} peers/mpi_${name}.cc)
    target_include_directories(${program} SYSTEM PRIVATE ${includes})
    target_compile_definitions(${program}
      PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX
              FORELOAD_TEST_COMPONENTS="$<TARGET_FILE_DIR:foreload_peers>")
    target_link_libraries(${program} PRIVATE foreload_peers foreload_flags GTest::gtest foreload_fmt
                                             ${library})
    add_dependencies(${program} foreload_mpi_${mpi})
    add_dependencies(all_tests ${program})
  endforeach()
  add_test(NAME ${title}Conformance
    COMMAND ${ARGN} -n 4 $<TARGET_FILE:peers_${mpi}_conformance> --gtest_brief=1)
  set_tests_properties(${title}Conformance PROPERTIES TIMEOUT 120)
  foreach(how own single missing idle meet)
    set(ranks 3)
    if(how STREQUAL meet)
      set(ranks 6)
    endif()
    add_test(NAME ${title}Start.${how} COMMAND ${ARGN} -n ${ranks} $<TARGET_FILE:peers_${mpi}_start> ${how})
    set_tests_properties(${title}Start.${how} PROPERTIES TIMEOUT 60)
  endforeach()
endfunction()

set(open_mpi ${FORELOAD_MPIRUN_OPENMPI} --allow-run-as-root --oversubscribe --mca btl self,vader,tcp)
foreload_mpi_tests(openmpi OpenMpi ${FORELOAD_OPENMPI_INCLUDE} ${FORELOAD_OPENMPI_LIBRARY} ${open_mpi})
foreload_mpi_tests(mpich Mpich ${FORELOAD_MPICH_INCLUDE} ${FORELOAD_MPICH_LIBRARY} ${FORELOAD_MPIRUN_MPICH})
# Only Open MPI has a way to outlive a rank.
add_test(NAME OpenMpiStart.lost
  COMMAND ${open_mpi} --enable-recovery -n 3 $<TARGET_FILE:peers_openmpi_start> lost)
set_tests_properties(OpenMpiStart.lost PROPERTIES TIMEOUT 60
  PASS_REGULAR_EXPRESSION "rank 0 has ended MPI.*rank 1 has ended MPI;rank 1 has ended MPI.*rank 0 has ended MPI")
