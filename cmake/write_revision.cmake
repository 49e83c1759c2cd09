# Writes the revision of the sources into a C++ file, which is touched only when it changes.
# usage: cmake -DSOURCE=FOLDER -DOUT=FILE [-DREVISION=TEXT] -P write_revision.cmake
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/read_revision.cmake)
beamline_read_revision("${SOURCE}" "${REVISION}")

set(text "namespace beamline {\nextern const char kRevision[];\nconst char kRevision[] = \"${REVISION}\";\n}  // namespace beamline\n")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE "${OUT}" "${text}")
endif()
