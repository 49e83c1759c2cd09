# `cpack -G DEB` (docs/install.md): beamline, libbeamline-client-dev and beamline-demo-models, and with the CUDA backend beamline-cuda.
# deploy/debian has what dpkg wants besides files.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME beamline)
set(CPACK_PACKAGE_VENDOR "")
# Packages for others name an address: -DBEAMLINE_MAINTAINER="NAME <ADDRESS>".
set(BEAMLINE_MAINTAINER "Beamline developers" CACHE STRING "Maintainer of the packages")
set(BEAMLINE_HOMEPAGE "" CACHE STRING "Home page of the packages; empty: none")
set(CPACK_PACKAGE_CONTACT "${BEAMLINE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "${BEAMLINE_HOMEPAGE}")
# As files of a system, at /usr and /etc; programs without what only debuggers need.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL runtime dev models)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
# A package can depend on packages alone, and so needs the distribution's CUDA.
if(BEAMLINE_CUDA)
  get_filename_component(library ${CUBLASLT_LIBRARY} REALPATH)
  execute_process(COMMAND dpkg-query -S ${library} RESULT_VARIABLE is_foreign OUTPUT_QUIET ERROR_QUIET)
  if(NOT is_foreign)
    list(APPEND CPACK_COMPONENTS_ALL cuda)
  endif()
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# A package of one release is older than the same of the next, so that an upgrade of the distribution takes the latter.
set(release 1)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release version_id REGEX "^VERSION_ID=")
  if(version_id MATCHES "\"([0-9.]+)\"")
    set(release 1~deb${CMAKE_MATCH_1})
  endif()
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${release})

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME beamline)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION net)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS beamline-demo-models)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "inference server for Hugging Face checkpoints
Serves text generators (Llama, Qwen, Mistral, Gemma, GPT-2 and others),
encoder-decoders (Marian, T5, BART), encoders, rerankers and classifiers
(BERT and others) over gRPC and OpenAI's HTTP API, on CPUs. Outputs match
transformers in float32; concurrent requests share one continuous batch.
With the command line client and the load tester.")
set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libbeamline-client-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libabsl-dev, libgrpc++-dev, libprotobuf-dev, protobuf-compiler, protobuf-compiler-grpc")
set(CPACK_COMPONENT_DEV_DESCRIPTION "C++ client of the Beamline inference server
The static library, its header, its CMake package Beamline, and the
contract as .proto files for clients in other languages.")

set(CPACK_DEBIAN_MODELS_PACKAGE_NAME beamline-demo-models)
set(CPACK_DEBIAN_MODELS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_MODELS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MODELS_PACKAGE_ENHANCES beamline)
set(CPACK_COMPONENT_MODELS_DESCRIPTION "small models for the Beamline inference server
A translator from English to German, a text generator and an encoder,
trained on texts of Debian's packages. A server whose configuration
names no models serves these.")

set(CPACK_DEBIAN_CUDA_PACKAGE_NAME beamline-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/net)
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_CUDA_DESCRIPTION "CUDA backend of the Beamline inference server
Computes on NVIDIA GPUs of compute capability 8.0 and newer.")

set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/finish_debian_files.cmake)
set(CPACK_BEAMLINE_DEBIAN_FOLDER ${debian})
set(CPACK_BEAMLINE_CHANGELOG ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/debian_version.cmake)
set(CPACK_BEAMLINE_SOURCE_FOLDER ${PROJECT_SOURCE_DIR})
set(CPACK_BEAMLINE_REVISION "${BEAMLINE_REVISION}")
set(CPACK_BEAMLINE_BUILD_TYPE "${CMAKE_BUILD_TYPE}")
include(CPack)
