# tessera_cuda_module(NAME SOURCES a.cu ...): lib<NAME>_cuda.so, the CUDA build of kernels, which the
# program NAME loads if it lies beside it. tessera's own build and a user's (`tessera new`) share this.

# nvcc: the machine's, or PyPI's in the environment that is active or that ./tessera made.
file(GLOB tessera_nvcc_wheels
  $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu13/bin
  ${PROJECT_SOURCE_DIR}/.venv-nvcc/lib/python3*/site-packages/nvidia/cu13/bin)
find_program(TESSERA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin ${tessera_nvcc_wheels})
# PyPI's looks for its libraries in lib64; they lie in lib.
get_filename_component(TESSERA_NVCC_LIBRARIES ${TESSERA_NVCC}/../../lib ABSOLUTE)
if(TARGET tessera::flags)  # installed
  get_target_property(TESSERA_CUDA_HEADERS tessera::flags INTERFACE_INCLUDE_DIRECTORIES)
else()
  set(TESSERA_CUDA_HEADERS ${PROJECT_SOURCE_DIR})
endif()

# What for: Hopper (TMA, wgmma), or the portable path (cp.async, mma.sync) of another architecture, which newer
# ones compile from its PTX. 80-90: that of sm_80, for a Hopper GPU to run.
set(TESSERA_CUDA_ARCHITECTURE 90a CACHE STRING "90a, or for the portable path 80, 86, 89, 100, 120 or 80-90")
set_property(CACHE TESSERA_CUDA_ARCHITECTURE PROPERTY STRINGS 90a 80 86 89 100 120 80-90)
if(TESSERA_CUDA_ARCHITECTURE STREQUAL "90a")
  set(tessera_nvcc_target -gencode=arch=compute_90a,code=sm_90a)
elseif(TESSERA_CUDA_ARCHITECTURE MATCHES "^(80|86|89|100|120)-(90)$")
  set(tessera_nvcc_target -gencode=arch=compute_${CMAKE_MATCH_1},code=sm_${CMAKE_MATCH_2} -DTESSERA_SM=${CMAKE_MATCH_1})
elseif(TESSERA_CUDA_ARCHITECTURE MATCHES "^(80|86|89|100|120)$")
  set(arch compute_${TESSERA_CUDA_ARCHITECTURE})
  set(tessera_nvcc_target -gencode=arch=${arch},code=sm_${TESSERA_CUDA_ARCHITECTURE} -gencode=arch=${arch},code=${arch}
    -DTESSERA_SM=${TESSERA_CUDA_ARCHITECTURE})
else()
  message(FATAL_ERROR "TESSERA_CUDA_ARCHITECTURE is 90a, 80, 86, 89, 100, 120 or 80-90, not ${TESSERA_CUDA_ARCHITECTURE}")
endif()
# The exact profile: every op is one rounding.
set(TESSERA_NVCC_FLAGS -std=c++20 --expt-relaxed-constexpr --extended-lambda
  ${tessera_nvcc_target} -fmad=false -I${TESSERA_CUDA_HEADERS}
  -Xcompiler -fPIC,-ffp-contract=off)
# Kernels whose products are on tensor cores use the GPU's own elementary functions, or, to compare
# them bit by bit with the interpreter's profile tensorcore:hopper, the interpreter's.
option(TESSERA_CUDA_EXACT_FUNCTIONS "Exact elementary functions beside tensor cores too (slower)" OFF)
if(TESSERA_CUDA_EXACT_FUNCTIONS)
  list(APPEND TESSERA_NVCC_FLAGS -DTESSERA_EXACT_FUNCTIONS)
endif()

# For compute-sanitizer's racecheck of the portable path, where one thread of a warp says that all have read a slot.
option(TESSERA_CUDA_EVERY_THREAD_ARRIVES "Every thread gives back the slots that it read (slower)" OFF)
if(TESSERA_CUDA_EVERY_THREAD_ARRIVES)
  list(APPEND TESSERA_NVCC_FLAGS -DTESSERA_EVERY_THREAD_ARRIVES)
endif()

# What accumulators hold after every step, for `tessera golden bisect --backend cuda`.
option(TESSERA_CUDA_CHECKSUMS "Keep checksums of accumulators, step by step (slower)" OFF)
if(TESSERA_CUDA_CHECKSUMS)
  list(APPEND TESSERA_NVCC_FLAGS -DTESSERA_STEP_CHECKSUMS)
endif()

# Minutes of nvcc less: of each kernel the first tile sizes in bf16, where there is no GPU to run the others.
option(TESSERA_CUDA_FIRST_TILES "Compile the first tile sizes of each kernel alone, in bf16" OFF)
if(TESSERA_CUDA_FIRST_TILES)
  list(APPEND TESSERA_NVCC_FLAGS -DTESSERA_FIRST_TILES -DTESSERA_ONLY_BF16 -O0) # of the host's code; the device's is always optimised whole
else()
  list(APPEND TESSERA_NVCC_FLAGS -O3)
endif()

# What a program and its module both see; the program takes one that was compiled with its own.
set(tessera_cuda_files ${CMAKE_CURRENT_LIST_DIR})
set(tessera_cuda_folders cuda memory_model sim/body)

# SOURCES are what the module is compiled of, EACH what one instance alone is compiled of, if others.
function(tessera_cuda_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;EACH" ${ARGN})
  if(NOT TESSERA_NVCC)
    message(FATAL_ERROR "nvcc was not found. Install the CUDA Toolkit, or, in a Python environment that is active "
      "when CMake runs, the packages that tessera's packages.txt lists under [nvcc]; or set TESSERA_NVCC.")
  endif()
  # How the program compiles an instance that is asked for (cli/cuda_instances.hpp).
  set(recipe "nvcc ${TESSERA_NVCC}\nlibraries ${TESSERA_NVCC_LIBRARIES}\nheaders ${TESSERA_CUDA_HEADERS}\n")
  foreach(flag ${TESSERA_NVCC_FLAGS})
    string(APPEND recipe "flag ${flag}\n")
  endforeach()
  if(NOT ARG_EACH)
    set(ARG_EACH ${ARG_SOURCES})
  endif()
  foreach(source ${ARG_EACH})
    get_filename_component(source ${source} ABSOLUTE)
    string(APPEND recipe "source ${source}\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/lib${name}_cuda.recipe CONTENT "${recipe}" @ONLY)
  set(objects)
  foreach(source ${TESSERA_CUDA_HEADERS}/cuda/backend.cu ${ARG_SOURCES})
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(stem ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}_cuda.${stem}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${TESSERA_NVCC} ${TESSERA_NVCC_FLAGS} -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "nvcc ${stem}.cu" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(patterns ${tessera_cuda_folders})
  list(TRANSFORM patterns REPLACE "(.+)" "${TESSERA_CUDA_HEADERS}/\\1/*.hpp")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${patterns})
  list(JOIN tessera_cuda_folders " " folders)
  set(interface ${CMAKE_CURRENT_BINARY_DIR}/${name}_cuda.interface)
  set(makes ${tessera_cuda_files}/hash_headers.cmake ${tessera_cuda_files}/cuda_interface.cpp.in)
  add_custom_command(OUTPUT ${interface}.cpp
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${TESSERA_CUDA_HEADERS} -DFOLDERS=${folders}
            -DTEMPLATE=${tessera_cuda_files}/cuda_interface.cpp.in -DOUT=${interface}.cpp -P ${tessera_cuda_files}/hash_headers.cmake
    DEPENDS ${headers} ${makes} VERBATIM)
  add_custom_command(OUTPUT ${interface}.o
    COMMAND ${TESSERA_NVCC} -Xcompiler -fPIC -c ${interface}.cpp -o ${interface}.o
    DEPENDS ${interface}.cpp VERBATIM)
  list(APPEND objects ${interface}.o)
  set(module ${CMAKE_CURRENT_BINARY_DIR}/lib${name}_cuda.so)
  add_custom_command(OUTPUT ${module}
    COMMAND ${TESSERA_NVCC} -shared -cudart static -L${TESSERA_NVCC_LIBRARIES} ${objects} -o ${module}
    DEPENDS ${objects} COMMENT "linking lib${name}_cuda.so" VERBATIM)
  add_custom_target(${name}_cuda ALL DEPENDS ${module})
endfunction()
