# What Debian wants of a package's files besides those that `cmake --install` copies. cpack runs it on the staged trees, one for each
# component.
file(STRINGS ${CPACK_BEAMLINE_CHANGELOG} released REGEX "^## \\[${CPACK_PACKAGE_VERSION}\\] - [0-9-]+$")
if(NOT released)
  message(FATAL_ERROR "CHANGELOG.md has no line '## [${CPACK_PACKAGE_VERSION}] - YYYY-MM-DD'")
endif()
string(REGEX REPLACE ".* - " "" day "${released}")
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
execute_process(COMMAND date --utc --date=${day} +%s OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND date --utc --date=${day} --rfc-email OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(epoch $ENV{SOURCE_DATE_EPOCH})
else()
  set(ENV{SOURCE_DATE_EPOCH} ${epoch}) # of the archives themselves
endif()

# A changelog's last line has an address, which may be empty.
set(maintainer "${CPACK_PACKAGE_CONTACT}")
if(NOT maintainer MATCHES "<.*>$")
  string(APPEND maintainer " <>")
endif()
unset(ENV{DESTDIR}) # paths below are whole ones
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
  set(doc ${root}/usr/share/doc/${package})
  file(INSTALL ${CPACK_BEAMLINE_DEBIAN_FOLDER}/copyright DESTINATION ${doc})
  file(WRITE ${doc}/changelog.Debian "beamline (${CPACK_DEBIAN_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Built of release ${CPACK_PACKAGE_VERSION} or later sources; the version has their time and revision.

 -- ${maintainer}  ${date}
")
  file(INSTALL ${CPACK_BEAMLINE_CHANGELOG} DESTINATION ${doc} RENAME changelog)
  if(component STREQUAL "runtime")
    file(REMOVE ${doc}/CHANGELOG.md ${doc}/LICENSE) # changelog.gz, and copyright
    file(INSTALL ${CPACK_BEAMLINE_DEBIAN_FOLDER}/README.Debian DESTINATION ${doc})
  endif()
  file(GLOB_RECURSE pages ${root}/usr/share/man/*.[1-9])
  run(gzip -9 -n -f ${doc}/changelog ${doc}/changelog.Debian ${pages})
  run(chmod -R u=rwX,go=rX ${root})
  run(find ${root} -exec touch --no-dereference --date=@${epoch} {} +)
endforeach()
