# Every third-party library; all of them come from the distribution (scripts/install_packages.sh).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED) # headers alone
find_package(yaml-cpp REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
if(NOT gRPC_VERSION MATCHES "^1\\.51\\.")
  message(NOTICE "gRPC ${gRPC_VERSION} is not 1.51, with which Beamline is tested. beamline-server tests at its start whether "
                 "connections are guarded against floods (SECURITY.md, Other versions of gRPC).")
endif()
find_package(prometheus-cpp CONFIG REQUIRED)
# Debian's dnnl-config.cmake asks for OpenCL's development files, which the CPU engine does not use.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(beamline_dnnl INTERFACE IMPORTED)
target_link_libraries(beamline_dnnl INTERFACE ${DNNL_LIBRARY})
target_include_directories(beamline_dnnl INTERFACE ${DNNL_INCLUDE_DIR})
# libonig defines POSIX's regcomp() and its like too, for patterns of its own kind. Programs look for a function in the
# order in which they name their libraries: behind the C library it takes nothing from it (tests/engine/text/posix_regex_test.cc).
# By its file, as g++ moves -lc to the end.
pkg_check_modules(ONIGURUMA REQUIRED IMPORTED_TARGET oniguruma)
add_library(beamline_oniguruma INTERFACE IMPORTED)
target_link_libraries(beamline_oniguruma INTERFACE -l:libc.so.6 PkgConfig::ONIGURUMA)
# Editing of lines in `beamline chat`. Its licence is BSD's; readline's, GPL 3, would be that of the program too.
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(ICU REQUIRED IMPORTED_TARGET icu-uc icu-i18n)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
if(BEAMLINE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(BEAMLINE_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
