# Manual pages and completion scripts, which the programs write themselves (base/command_documents.h).

# beamline_documents(PROGRAM COMPLETION [OPTIONAL]): written behind the program's link, so that whoever built the program
# can install them. COMPLETION: what asks it for a script. OPTIONAL: as in install().
function(beamline_documents program completion)
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    return() # it does not run here
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/documents)
  file(MAKE_DIRECTORY ${folder})
  set(run ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>)
  add_custom_command(TARGET ${program} POST_BUILD
    COMMAND ${run} --man-page > ${folder}/${program}.1
    COMMAND ${run} ${completion} bash > ${folder}/${program}
    COMMAND ${run} ${completion} zsh > ${folder}/_${program}
    COMMAND ${run} ${completion} fish > ${folder}/${program}.fish
    VERBATIM)
  install(FILES ${folder}/${program}.1 DESTINATION share/man/man1 ${ARGN})
  install(FILES ${folder}/${program} DESTINATION share/bash-completion/completions ${ARGN})
  install(FILES ${folder}/_${program} DESTINATION share/zsh/vendor-completions ${ARGN})
  install(FILES ${folder}/${program}.fish DESTINATION share/fish/vendor_completions.d ${ARGN})
endfunction()
