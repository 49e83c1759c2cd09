# cpack includes it before it makes packages (CPACK_PROJECT_CONFIG_FILE): their version has the time and the revision of the commit, so that
# a package of later sources upgrades one of earlier sources, and one of the next release both. Sources without a commit have the version alone.
if(CPACK_BEAMLINE_BUILD_TYPE STREQUAL "Quick")
  message(FATAL_ERROR "CMAKE_BUILD_TYPE is Quick, which is a build for this machine alone; `cmake --preset release` configures "
    "one for packages")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/read_revision.cmake)
beamline_read_revision("${CPACK_BEAMLINE_SOURCE_FOLDER}" "${CPACK_BEAMLINE_REVISION}")
set(version ${CPACK_PACKAGE_VERSION})
if(REVISION_TIME)
  set(epoch "$ENV{SOURCE_DATE_EPOCH}")
  set(ENV{SOURCE_DATE_EPOCH} ${REVISION_TIME}) # what string(TIMESTAMP) writes
  string(TIMESTAMP time "%Y%m%d.%H%M%S" UTC)
  if(epoch STREQUAL "")
    unset(ENV{SOURCE_DATE_EPOCH})
  else()
    set(ENV{SOURCE_DATE_EPOCH} ${epoch})
  endif()
  string(REPLACE "-" "." revision ${REVISION}) # a hyphen begins Debian's own revision
  string(REPLACE "_" "." revision ${revision})
  string(APPEND version "+${time}.${revision}")
endif()
set(CPACK_DEBIAN_PACKAGE_VERSION ${version})
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "beamline (= ${version}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
