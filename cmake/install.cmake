# SPDX-License-Identifier: Apache-2.0
# `cmake --install` gives headers, libraries, the program and find_package(foreload); a wheel takes
# only the component named python.
include(CMakePackageConfigHelpers)

if(SKBUILD)
  install(TARGETS foreload_program DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  if(FORELOAD_WHEEL)
    install(DIRECTORY ${FORELOAD_WHEEL_PREFIX}/licenses DESTINATION foreload COMPONENT python)
  endif()
  return()
endif()

install(TARGETS foreload_program DESTINATION ${CMAKE_INSTALL_BINDIR})
add_library(foreload_all INTERFACE)
set_target_properties(foreload_all PROPERTIES EXPORT_NAME foreload)
foreach(part IN LISTS FORELOAD_PARTS)
  target_link_libraries(foreload_all INTERFACE foreload_${part})
  install(DIRECTORY src/foreload/${part} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/foreload
          FILES_MATCHING PATTERN "*.h")
  list(APPEND part_targets foreload_${part})
endforeach()
install(TARGETS foreload_all ${part_targets} EXPORT foreload-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT foreload-targets NAMESPACE foreload:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/foreload)
configure_package_config_file(cmake/foreload-config.cmake.in foreload-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/foreload)
write_basic_package_version_file(foreload-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/find-expected.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/foreload-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/foreload-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/foreload)
