# What is installed besides programs, libraries and headers: documents, the configuration file, systemd's unit. Rules that name no
# component belong to `runtime`; `dev` is the C++ client and the contract, `models` the demo models, `cuda` the CUDA backend.
include(GNUInstallDirs)
set(BEAMLINE_CONFIG_SAMPLE ${PROJECT_SOURCE_DIR}/deploy/systemd/server.yaml)
install(FILES README.md CHANGELOG.md LICENSE SECURITY.md DESTINATION share/doc/beamline)
install(PROGRAMS tools/convert_weights DESTINATION share/beamline/tools)
install(FILES ${BEAMLINE_CONFIG_SAMPLE} DESTINATION share/doc/beamline/examples)

# These two depend on where the tree is installed, which --prefix may say as late as then. A configuration file that is there is
# its administrator's.
configure_file(${CMAKE_CURRENT_LIST_DIR}/install_service.cmake.in ${PROJECT_BINARY_DIR}/install_service.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/install_service.cmake)
