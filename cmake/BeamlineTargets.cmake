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

# LABELS: unit (default), golden, e2e, gpu; gpus beside it for what needs several. TIMEOUT in seconds (default 120; see
# beamline_test_turn). NO_SANITIZER: left out of
# builds with a sanitizer, for whole models over whole golden files: they take minutes there and touch
# no code that other tests do not. DEFINITIONS: of the preprocessor. NEEDS: targets that the test starts.
# CORES: 2 for what keeps more than one busy, or depends on the time that it gets; most tests leave a third of theirs free.
# ENVIRONMENT: "NAME=value;..." of its process.
#
# In folders of BEAMLINE_TESTS_APART only those are built that a build with a sanitizer does not run in full: golden ones, NO_SANITIZER,
# and what does less under a sanitizer (tests/sanitized.h).
#
# In folders of BEAMLINE_JOINED_TESTS the sources of all tests are one program, whose headers are then read once for
# two dozen sources instead of once for each; every test runs its own sources of it, as its own process (tests/joined_main.cc).
function(beamline_test name)
  cmake_parse_arguments(ARG "NO_SANITIZER" "TIMEOUT;CORES;ENVIRONMENT" "SOURCES;DEPS;LABELS;DEFINITIONS;NEEDS" ${ARGN})
  if(ARG_NO_SANITIZER AND BEAMLINE_SANITIZER)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_CORES)
    set(ARG_CORES 1)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  beamline_read_tests(has_main does_less ${ARG_SOURCES})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "/.*" "" folder ${folder})
  if(folder IN_LIST BEAMLINE_TESTS_APART AND NOT ARG_NO_SANITIZER AND ARG_LABELS STREQUAL "unit" AND NOT does_less)
    return()
  endif()
  if(folder IN_LIST BEAMLINE_JOINED_TESTS AND NOT has_main)
    set(program ${folder}_tests)
    if(NOT TARGET ${program})
      beamline_test_program(${program} joined)
    endif()
    get_target_property(sources ${program} SOURCES)
    set(command ${program})
    foreach(source IN LISTS ARG_SOURCES)
      cmake_path(ABSOLUTE_PATH source NORMALIZE)
      if(NOT source IN_LIST sources)
        target_sources(${program} PRIVATE ${source})
      endif()
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      list(APPEND command ${source})
      set_property(GLOBAL APPEND PROPERTY BEAMLINE_SOURCES_OF_${folder} ${source})
    endforeach()
  else()
    set(program ${name})
    beamline_test_program(${program} ${ARG_LABELS})
    target_sources(${program} PRIVATE ${ARG_SOURCES})
    set(command ${program})
  endif()
  target_link_libraries(${program} PRIVATE ${ARG_DEPS})
  target_compile_definitions(${program} PRIVATE ${ARG_DEFINITIONS})
  if(ARG_NEEDS)
    add_dependencies(${program} ${ARG_NEEDS})
  endif()
  add_test(NAME ${name} COMMAND ${command})
  set_property(GLOBAL PROPERTY BEAMLINE_COMMAND_OF_${name} "${command}")
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  beamline_test_turn(${name} ${ARG_TIMEOUT} ${ARG_CORES})
  if(ARG_ENVIRONMENT)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
  if("gpu" IN_LIST ARG_LABELS)
    # Without a GPU these test nothing, which must not count as passed (tests/gpu/gpu_test_main.cc).
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# beamline_test_turn(NAME TIMEOUT CORES): how long test NAME may take, in seconds, what it keeps busy, and its turn: what
# may take longest begins first, but behind all that wants two cores. Beside each of these the others fill a third slot;
# left to the end they would run one by one. It is ended after three times TIMEOUT, for slow machines and shared ones.
function(beamline_test_turn name timeout cores)
  math(EXPR cost "${timeout} + 10000 * (${cores} - 1)")
  math(EXPR limit "3 * ${timeout}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit} COST ${cost} PROCESSORS ${cores})
endfunction()

# beamline_test_again(NAME AGAIN ENVIRONMENT): test NAME once more, as test AGAIN, in another environment.
function(beamline_test_again name again environment)
  get_property(command GLOBAL PROPERTY BEAMLINE_COMMAND_OF_${name})
  if(command)
    get_test_property(${name} LABELS labels)
    get_test_property(${name} TIMEOUT limit)
    math(EXPR timeout "${limit} / 3")
    add_test(NAME ${again} COMMAND ${command})
    set_tests_properties(${again} PROPERTIES LABELS "${labels}" ENVIRONMENT ${environment})
    beamline_test_turn(${again} ${timeout} 2)
  endif()
endfunction()

# beamline_test_program(NAME LABELS...): a program of tests without sources; `joined` among the labels: of a whole folder.
function(beamline_test_program name)
  add_executable(${name})
  set(main GTest::gtest_main)
  if("joined" IN_LIST ARGN)
    set(main)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/joined_main.cc)
  elseif("gpus" IN_LIST ARGN)
    set(main beamline_gpus_test_main)
  elseif("gpu" IN_LIST ARGN)
    set(main beamline_gpu_test_main) # tests/gpu
  endif()
  target_link_libraries(${name} PRIVATE beamline_options GTest::gtest GTest::gmock ${main})
  target_compile_definitions(${name} PRIVATE BEAMLINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endfunction()

# beamline_read_tests(HAS_MAIN DOES_LESS SOURCES...): whether one of the sources has main(), and whether one asks for a
# sanitizer. Read when CMake runs, and saving a test does not run it again: a second main() in a joined program does not
# link, and scripts/test.sh configures first.
function(beamline_read_tests main_variable less_variable)
  set(has_main NO)
  set(does_less NO)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    file(STRINGS ${source} lines REGEX "^int main\\(|^#include \"tests/sanitized.h\"")
    foreach(line IN LISTS lines)
      if(line MATCHES "^int main")
        set(has_main YES)
      else()
        set(does_less YES)
      endif()
    endforeach()
  endforeach()
  set(${main_variable} ${has_main} PARENT_SCOPE)
  set(${less_variable} ${does_less} PARENT_SCOPE)
endfunction()
