# Writes the revision of the sources into a C++ file, which is touched only when it changes.
# usage: cmake -DSOURCE=FOLDER -DOUT=FILE [-DREVISION=TEXT] -P write_revision.cmake
#
# REVISION itself, where it is given (a build without .git: an image's); else git's, where SOURCE is a working tree; else what
# `git archive` wrote into cmake/revision.txt; else "unknown".
if(NOT REVISION AND EXISTS "${SOURCE}/.git")
  find_program(GIT git)
  if(GIT)
    # The build may run as somebody else than who made the working tree, which git refuses by itself.
    set(git ${GIT} -c "safe.directory=*" --no-optional-locks -C "${SOURCE}")
    execute_process(COMMAND ${git} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
      set(REVISION "")
    else()
      execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
      if(changes)
        string(APPEND REVISION "-modified")
      endif()
    endif()
  endif()
elseif(NOT REVISION AND EXISTS "${SOURCE}/cmake/revision.txt")
  file(STRINGS "${SOURCE}/cmake/revision.txt" REVISION LIMIT_COUNT 1)
  if(REVISION MATCHES "^[0-9a-f]+$")
    string(SUBSTRING "${REVISION}" 0 12 REVISION)
  else()
    set(REVISION "")
  endif()
endif()
if(NOT REVISION)
  set(REVISION "unknown")
endif()
if(NOT REVISION MATCHES "^[0-9A-Za-z._-]+$")
  message(FATAL_ERROR "REVISION is '${REVISION}'; accepted: letters, digits, dots, underscores and hyphens")
endif()

set(text "namespace beamline {\nextern const char kRevision[];\nconst char kRevision[] = \"${REVISION}\";\n}  // namespace beamline\n")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE "${OUT}" "${text}")
endif()
