# How everything is compiled. Presets (CMakePresets.json) set these options.
option(BEAMLINE_BUILD_TESTS "Build the tests" ON)
option(BEAMLINE_BUILD_BENCHMARKS "Build the operator benchmarks" ON)
option(BEAMLINE_WARNINGS_AS_ERRORS "Turn compiler warnings into errors" ON)
set(BEAMLINE_SANITIZER "" CACHE STRING "address, thread, undefined, or empty")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(beamline_options INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
             -Wno-missing-field-initializers)
target_compile_options(beamline_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
# g++ 12 and 13 warn of overlapping copies inside std::string where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  target_compile_options(beamline_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(BEAMLINE_WARNINGS_AS_ERRORS)
  target_compile_options(beamline_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                                                    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
target_include_directories(beamline_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
if(BEAMLINE_SANITIZER)
  # -O1: a quarter less to compile than -O2, which counts in CI.
  add_compile_options(-fsanitize=${BEAMLINE_SANITIZER} -fno-omit-frame-pointer -g1 -O1)
  add_link_options(-fsanitize=${BEAMLINE_SANITIZER})
endif()
