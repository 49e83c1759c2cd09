# How everything is compiled. Presets (CMakePresets.json) set these options.
option(BEAMLINE_BUILD_TESTS "Build the tests" ON)
option(BEAMLINE_BUILD_BENCHMARKS "Build the operator benchmarks" ON)
option(BEAMLINE_WARNINGS_AS_ERRORS "Turn compiler warnings into errors" ON)
set(BEAMLINE_SANITIZER "" CACHE STRING "address, thread, undefined, or empty")
set(BEAMLINE_JOINED_TESTS "" CACHE STRING "Folders below tests/ whose tests are one program (cmake/BeamlineTargets.cmake)")
set(BEAMLINE_TESTS_APART "" CACHE STRING "Folders below tests/ whose unit tests another build runs, under a sanitizer (cmake/BeamlineTargets.cmake)")
option(BEAMLINE_LIBFUZZER "Build the fuzzers of tests/fuzz with libFuzzer, which clang has" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Quick builds sooner, for this machine alone (scripts/demo.sh): its own level of the CPU kernels (kernels/cpu/CMakeLists.txt),
# which keep -O3, and no long optimisation of the rest. --version and beamline_build_info name it; packages are not made of it.
set(CMAKE_CXX_FLAGS_QUICK "-O1 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_QUICK "-O3 -DNDEBUG")

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
# A name of one file may shadow another file's where both are compiled as one.
target_compile_options(beamline_options INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-shadow>)
if(BEAMLINE_WARNINGS_AS_ERRORS)
  target_compile_options(beamline_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                                                    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  # These come out of the optimiser's analysis of values, which every version of g++ does otherwise, which sees
  # more where sources are compiled as one, and which is wrong at times (GCC bugs 80635, 107852): shown, but no
  # reason to fail.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
     AND (CMAKE_UNITY_BUILD OR NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13))
    set(shown -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=array-bounds
              -Wno-error=aggressive-loop-optimizations)
    target_compile_options(beamline_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${shown}>")
  endif()
endif()
target_include_directories(beamline_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
if(BEAMLINE_SANITIZER)
  # -Og compiles in less than half of -O2's time; what ThreadSanitizer adds to each access costs more than -O1. Ending at the first fault, which a test does anyway,
  # takes another quarter off: UBSan's checks then have no way back into the code.
  set(level -Og)
  if(BEAMLINE_SANITIZER STREQUAL "thread")
    set(level -O1)
  endif()
  add_compile_options(-fsanitize=${BEAMLINE_SANITIZER} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 ${level})
  add_link_options(-fsanitize=${BEAMLINE_SANITIZER})
  if(BEAMLINE_SANITIZER MATCHES "undefined")
    # A check of every pointer, a quarter of the time to compile. AddressSanitizer sees null pointers and what lies
    # beyond an object where they are read; folders that cast bytes to numbers turn alignment on again. Downcasts
    # (vptr) are dynamic ones here.
    add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
    set(BEAMLINE_SANITIZE_CASTS -fsanitize=alignment)
  endif()
  # For generated code, whose libraries come without sanitizers too.
  set(BEAMLINE_NO_SANITIZER -fno-sanitize=all)
endif()
if(BEAMLINE_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BEAMLINE_LIBFUZZER needs clang, not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
