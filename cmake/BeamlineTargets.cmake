# beamline_library(NAME SOURCES a.cc ... DEPS x y): one static library per folder, named beamline_<folder>.
# beamline_binary(NAME ...) and beamline_test(NAME ...) take the same arguments.
function(beamline_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  # The project's own warnings and folders are nothing for those who use an installed library.
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:beamline_options> ${ARG_DEPS})
endfunction()

function(beamline_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE beamline_options ${ARG_DEPS})
  # Every symbol is bound at start, and the table of them is read-only from then on.
  target_link_options(${name} PRIVATE -Wl,-z,relro,-z,now)
endfunction()

# LABELS: unit (default), golden, e2e, gpu; gpus beside it for what needs several. TIMEOUT in seconds (default 120). NO_SANITIZER: left out of
# builds with a sanitizer, for whole models over whole golden files: they take minutes there and touch
# no code that other tests do not.
function(beamline_test name)
  cmake_parse_arguments(ARG "NO_SANITIZER" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(ARG_NO_SANITIZER AND BEAMLINE_SANITIZER)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set(main GTest::gtest_main)
  if("gpu" IN_LIST ARG_LABELS)
    set(main beamline_gpu_test_main) # tests/gpu
  endif()
  if("gpus" IN_LIST ARG_LABELS)
    set(main beamline_gpus_test_main)
  endif()
  target_link_libraries(${name} PRIVATE beamline_options ${ARG_DEPS} GTest::gtest GTest::gmock ${main})
  target_compile_definitions(${name} PRIVATE BEAMLINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if("gpu" IN_LIST ARG_LABELS) # file by file, as the kernels
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if("gpu" IN_LIST ARG_LABELS)
    # Without a GPU these test nothing, which must not count as passed (tests/gpu/gpu_test_main.cc).
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()
