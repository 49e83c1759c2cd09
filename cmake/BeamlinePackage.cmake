# The package of the installed C++ client: find_package(Beamline) gives Beamline::client.
include(CMakePackageConfigHelpers)

set(BEAMLINE_PACKAGE_FOLDER lib/cmake/Beamline)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BeamlineConfig.cmake.in
  ${PROJECT_BINARY_DIR}/BeamlineConfig.cmake INSTALL_DESTINATION ${BEAMLINE_PACKAGE_FOLDER})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BeamlineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BeamlineConfig.cmake ${PROJECT_BINARY_DIR}/BeamlineConfigVersion.cmake
  DESTINATION ${BEAMLINE_PACKAGE_FOLDER} COMPONENT dev)
install(EXPORT BeamlineExport NAMESPACE Beamline:: DESTINATION ${BEAMLINE_PACKAGE_FOLDER} COMPONENT dev)
