# SPDX-License-Identifier: Apache-2.0
# Transports that are modules of their own: where peers_test finds them, and the programs it starts
# as other ranks.
add_executable(peers_ucx_rank peers/ucx_rank.cc)
target_link_libraries(peers_ucx_rank PRIVATE foreload_peers foreload_flags foreload_fmt)
add_dependencies(peers_test foreload_ucx foreload_mpi_openmpi foreload_mpi_mpich peers_ucx_rank)
# Tags and frames are tested one by one.
target_sources(peers_test PRIVATE ${PROJECT_SOURCE_DIR}/src/foreload/peers/ucx/crypto.cc
                                  ${PROJECT_SOURCE_DIR}/src/foreload/peers/ucx/frame.cc
                                  ${PROJECT_SOURCE_DIR}/src/foreload/peers/ucx/seal.cc)
target_include_directories(peers_test SYSTEM PRIVATE ${FORELOAD_OPENSSL_INCLUDE})
target_compile_definitions(peers_test
  PRIVATE FORELOAD_TEST_COMPONENTS="$<TARGET_FILE_DIR:foreload_peers>"
          FORELOAD_TEST_UCX_RANK="$<TARGET_FILE:peers_ucx_rank>"
          FORELOAD_TEST_OLD_MODULES="$<TARGET_FILE_DIR:peers_old_module>")

# A module of an older border.
add_library(peers_old_module MODULE peers/old_module.cc)
set_target_properties(peers_old_module PROPERTIES OUTPUT_NAME foreload_ucx
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/old_modules)
add_dependencies(peers_test peers_old_module)

# Not under the sanitizers, which find much in MPI that is not foreload's and want one C++ library.
if(NOT FORELOAD_SANITIZE)
  # UCX's module with a C++ library of its own inside, whose strings and lists have another layout, as
  # if another compiler had made it.
  set(ucx_sources announcement component crypto frame library seal ucx_transport worker)
  list(TRANSFORM ucx_sources REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/foreload/peers/ucx/\\1.cc")
  add_library(peers_foreign_module MODULE ${ucx_sources}
    ${PROJECT_SOURCE_DIR}/src/foreload/peers/border.cc ${PROJECT_SOURCE_DIR}/src/foreload/peers/rendezvous.cc
    ${PROJECT_SOURCE_DIR}/src/foreload/base/shared_library.cc
    ${PROJECT_SOURCE_DIR}/src/foreload/base/hash.cc)
  target_include_directories(peers_foreign_module PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(peers_foreign_module SYSTEM PRIVATE ${FORELOAD_UCX_INCLUDE}
                                                                 ${FORELOAD_OPENSSL_INCLUDE})
  target_compile_definitions(peers_foreign_module
    PRIVATE _GLIBCXX_USE_CXX11_ABI=0 FORELOAD_VERSION="${PROJECT_VERSION}")
  target_link_libraries(peers_foreign_module PRIVATE fmt::fmt-header-only tl::expected foreload_xxhash
                                                      foreload_flags)
  target_link_options(peers_foreign_module PRIVATE -static-libstdc++ -static-libgcc
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/foreload/peers/component.map)
  set_target_properties(peers_foreign_module PROPERTIES OUTPUT_NAME foreload_ucx
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/foreign_modules)
  add_dependencies(peers_test peers_foreign_module)
  target_compile_definitions(peers_test
    PRIVATE FORELOAD_TEST_FOREIGN_MODULES="$<TARGET_FILE_DIR:peers_foreign_module>")
  # Real processes under both MPIs.
  include(peers/mpi.cmake)
endif()
